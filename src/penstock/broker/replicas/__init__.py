"""Partitions as this broker holds them: who leads, what is committed, who waits."""
