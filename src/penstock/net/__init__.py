"""Bytes on sockets: accepting, cutting requests, sending answers in order."""
