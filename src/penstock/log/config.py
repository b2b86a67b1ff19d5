"""What a partition's log is told to do: Kafka's topic settings, parsed once, as plain typed fields.

A field has the name of the topic setting with dots turned into underscores: `segment.bytes` is `segment_bytes`. The
values here are Kafka 4.3's defaults. Times are milliseconds, sizes are bytes, and where Kafka says so -1 means "no
limit". `LogConfig` is made from the broker's settings and the topic's own by `penstock.broker.config`, which has
checked every value; the log trusts it. When a setting changes the log is given a new object, never a changed one.

`producer_id_expiration_ms` is the one field that is the broker's and no topic's. The lists of throttled replicas are
the topic's settings too, but belong to replication and are not here.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_LIMIT = -1
"""retention_ms, retention_bytes: keep for ever."""

SAME_AS_RETENTION = -2
"""local_retention_ms, local_retention_bytes: use retention_ms, retention_bytes."""

FOR_EVER_MS = 2**63 - 1
"""The largest long, which Kafka writes where it means "never"."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's settings, as its logs need them."""

    # Segments: when the active one is closed and how its files are made.
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False

    # Retention: what is deleted, and when.
    cleanup_policy: frozenset[str] = frozenset(("delete",))
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = NO_LIMIT
    local_retention_ms: int = SAME_AS_RETENTION
    local_retention_bytes: int = SAME_AS_RETENTION
    file_delete_delay_ms: int = 60_000

    # Compaction.
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOR_EVER_MS

    # Flushing to the disk, beside the broker's `penstock.durability`.
    flush_messages: int = 2**63 - 1
    flush_ms: int = FOR_EVER_MS

    # What is accepted, and how it is stored.
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOR_EVER_MS
    message_timestamp_after_max_ms: int = 3600 * 1000

    # Replication: read by the partition's leader, kept here because they are settings of the topic.
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False

    # Tiered storage.
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False

    # The broker's, not the topic's: how long an idle producer's sequence numbers are kept.
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """The broker's clock, not the producer's, gives a record its timestamp."""
        return self.message_timestamp_type == "LogAppendTime"
