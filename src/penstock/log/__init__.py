"""Bytes on disk: partition logs in Kafka's own files. Synchronous, one writer per log, all file access passed in."""
