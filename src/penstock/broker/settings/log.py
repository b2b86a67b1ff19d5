"""Settings of the logs: where they are, how segments close, how long records stay, flushing, compaction."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast, Between, OneOf
from penstock.broker.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PER_BROKER,
    STRING,
    Setting,
)

# A table, two lines to a row.
# fmt: off
LOG_SETTINGS = (
    Setting("background.threads", INT, 10, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            doc="How many threads do the broker's background work, such as flushing and deleting files."),
    Setting("compression.type", STRING, "producer", CLUSTER_WIDE,
            check=OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), implemented=True,
            doc="How batches are stored in topics that do not say: producer keeps what the producer sent, any "
                "other value makes the broker compress again."),
    Setting("compression.gzip.level", INT, -1, CLUSTER_WIDE, check=Between(1, 9, also=-1),
            doc="How hard gzip works when the broker compresses: 1 is fastest, 9 is smallest, -1 is gzip's own "
                "default."),
    Setting("compression.lz4.level", INT, 9, CLUSTER_WIDE, check=Between(1, 17),
            doc="How hard lz4 works when the broker compresses: 1 is fastest, 17 is smallest."),
    Setting("compression.zstd.level", INT, 3, CLUSTER_WIDE, check=Between(-131_072, 22),
            doc="How hard zstd works when the broker compresses: a larger number is smaller and slower."),
    Setting("cordoned.log.dirs", LIST, (), PER_BROKER,
            doc="Log directories that get no new partitions."),
    Setting("log.cleaner.backoff.ms", LONG, 15_000, CLUSTER_WIDE, check=AtLeast(0),
            doc="How many milliseconds the cleaner rests when nothing needs compaction."),
    Setting("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, CLUSTER_WIDE,
            doc="How many bytes the cleaner's threads may use together to remember keys."),
    Setting("log.cleaner.delete.retention.ms", LONG, 86_400_000, CLUSTER_WIDE, check=AtLeast(0),
            doc="How long the marker of a deleted key stays in compacted topics that do not say, in milliseconds."),
    Setting("log.cleaner.enable", BOOLEAN, True,
            doc="Whether compaction runs at all."),
    Setting("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, CLUSTER_WIDE,
            doc="How full the cleaner's memory of keys may get, between 0 and 1; fuller means more keys and more "
                "collisions."),
    Setting("log.cleaner.io.buffer.size", INT, 524_288, CLUSTER_WIDE, check=AtLeast(0),
            doc="How many bytes the cleaner's threads may use together for reading and writing."),
    Setting("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, CLUSTER_WIDE,
            doc="How many bytes the cleaner may read and write each second."),
    Setting("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(1),
            doc="After how many milliseconds a record must have been looked at by compaction, in topics that do "
                "not say."),
    Setting("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, CLUSTER_WIDE, check=Between(0, 1),
            doc="How much of a compacted log must be uncompacted before it is compacted again, in topics that do "
                "not say."),
    Setting("log.cleaner.min.compaction.lag.ms", LONG, 0, CLUSTER_WIDE, check=AtLeast(0),
            doc="How many milliseconds a record stays untouched by compaction, in topics that do not say."),
    Setting("log.cleaner.threads", INT, 1, CLUSTER_WIDE, check=AtLeast(0),
            doc="How many threads compact logs."),
    Setting("log.cleanup.policy", LIST, ("delete",), CLUSTER_WIDE, check=OneOf(("compact", "delete")),
            implemented=True,
            doc="What happens to old records in topics that do not say: delete, compact, both, or nothing when "
                "the list is empty."),
    Setting("log.dir", LIST, (), implemented=True,
            differs="the data directory of the user who starts it; Kafka has /tmp/kafka-logs",
            doc="Where the logs are when log.dirs is not set."),
    Setting("log.dir.failure.timeout.ms", LONG, 30_000, check=AtLeast(1),
            doc="After how many milliseconds the broker stops when it cannot report a failed log directory."),
    Setting("log.dirs", LIST, None, implemented=True,
            doc="The directories that hold the logs; new partitions go to the one with the fewest."),
    Setting("log.flush.interval.messages", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            doc="After how many messages a log is forced to disk, in topics that do not say."),
    Setting("log.flush.interval.ms", LONG, None, CLUSTER_WIDE, implemented=True,
            doc="After how many milliseconds an unflushed message is forced to disk, in topics that do not say; "
                "unset means log.flush.scheduler.interval.ms."),
    Setting("log.flush.offset.checkpoint.interval.ms", INT, 60_000, check=AtLeast(0), implemented=True,
            doc="How often the point from which recovery starts is written down, in milliseconds."),
    Setting("log.flush.scheduler.interval.ms", LONG, LONG_MAX, implemented=True,
            doc="How often the broker looks for logs to flush, in milliseconds."),
    Setting("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, check=AtLeast(0), implemented=True,
            doc="How often the logs' first offsets are written down, in milliseconds."),
    Setting("log.index.interval.bytes", INT, 4096, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="After how many bytes of records the offset index gets its next entry, in topics that do not say."),
    Setting("log.index.size.max.bytes", INT, 10_485_760, CLUSTER_WIDE, check=AtLeast(4), implemented=True,
            doc="The largest size of a segment's offset index, in bytes, in topics that do not say."),
    Setting("log.local.retention.bytes", LONG, -2, CLUSTER_WIDE, check=AtLeast(-2),
            doc="How many bytes of a partition stay on the local disk when older segments are in remote storage; "
                "-2 means log.retention.bytes."),
    Setting("log.local.retention.ms", LONG, -2, CLUSTER_WIDE, check=AtLeast(-2),
            doc="How many milliseconds of a partition stay on the local disk when older segments are in remote "
                "storage; -2 means log.retention.ms."),
    Setting("log.message.timestamp.after.max.ms", LONG, 3_600_000, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="How many milliseconds a record's timestamp may be ahead of the broker's clock, in topics that do "
                "not say."),
    Setting("log.message.timestamp.before.max.ms", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="How many milliseconds a record's timestamp may be behind the broker's clock, in topics that do "
                "not say."),
    Setting("log.message.timestamp.type", STRING, "CreateTime", CLUSTER_WIDE,
            check=OneOf(("CreateTime", "LogAppendTime")), implemented=True,
            doc="Whose clock gives a record its timestamp in topics that do not say: CreateTime is the "
                "producer's, LogAppendTime is the broker's."),
    Setting("log.preallocate", BOOLEAN, False, CLUSTER_WIDE, implemented=True,
            doc="Whether a new segment's file gets its full size at once, in topics that do not say."),
    Setting("log.retention.bytes", LONG, -1, CLUSTER_WIDE, implemented=True,
            doc="How many bytes of a partition are kept, in topics that do not say; -1 means no limit."),
    Setting("log.retention.check.interval.ms", LONG, 300_000, check=AtLeast(1), implemented=True,
            doc="How often the broker looks for segments to delete, in milliseconds."),
    Setting("log.retention.hours", INT, 168, implemented=True,
            doc="How many hours a record is kept; used when neither log.retention.ms nor log.retention.minutes is "
                "set."),
    Setting("log.retention.minutes", INT, None, implemented=True,
            doc="How many minutes a record is kept; used when log.retention.ms is not set."),
    Setting("log.retention.ms", LONG, None, CLUSTER_WIDE, implemented=True,
            doc="How many milliseconds a record is kept, in topics that do not say; -1 means for ever."),
    Setting("log.roll.hours", INT, 168, check=AtLeast(1), implemented=True,
            doc="After how many hours a segment is closed; used when log.roll.ms is not set."),
    Setting("log.roll.jitter.hours", INT, 0, check=AtLeast(0), implemented=True,
            doc="By how many hours at most log.roll.hours is shortened at random; used when log.roll.jitter.ms is "
                "not set."),
    Setting("log.roll.jitter.ms", LONG, None, CLUSTER_WIDE, implemented=True,
            doc="By how many milliseconds at most the closing of a segment is moved forward at random."),
    Setting("log.roll.ms", LONG, None, CLUSTER_WIDE, implemented=True,
            doc="After how many milliseconds a segment is closed even if it is not full, in topics that do not "
                "say."),
    Setting("log.segment.bytes", INT, 1_073_741_824, CLUSTER_WIDE, check=AtLeast(1_048_576), implemented=True,
            doc="At which size, in bytes, a segment is closed, in topics that do not say."),
    Setting("log.segment.delete.delay.ms", LONG, 60_000, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="How long a removed segment's files stay on disk, in milliseconds, in topics that do not say."),
    Setting("log.initial.task.delay.ms", LONG, 30_000, check=AtLeast(0), internal=True,
            doc="How many milliseconds after the start the first retention check and the like run."),
    Setting("message.max.bytes", INT, 1_048_588, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="The largest batch that is accepted, in bytes, in topics that do not say."),
    Setting("num.recovery.threads.per.data.dir", INT, 2, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            doc="How many threads check the logs of one directory after an unclean stop."),
    Setting("producer.id.expiration.ms", INT, 86_400_000, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            doc="After how many milliseconds without a write the broker forgets an idempotent producer."),
    Setting("producer.id.expiration.check.interval.ms", INT, 600_000, check=AtLeast(1), implemented=True,
            internal=True,
            doc="How often the broker looks for producers to forget, in milliseconds."),
)
# fmt: on
