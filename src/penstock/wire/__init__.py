"""Bytes <-> messages, pure: no socket, no clock, no file."""
