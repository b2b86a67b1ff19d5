"""Settings of a topic. A topic that does not set one uses the broker's in `synonyms`, the first that is set."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast, Between, OneOf, ThrottledReplicas
from penstock.broker.settings.setting import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LIST, LONG, LONG_MAX, STRING, Setting

# A table, two lines to a row.
# fmt: off
TOPIC_SETTINGS = (
    Setting("cleanup.policy", LIST, ("delete",), CLUSTER_WIDE, check=OneOf(("compact", "delete")), implemented=True,
            synonyms=("log.cleanup.policy",),
            doc="What happens to old records: delete drops whole segments, compact keeps the last record of each "
                "key; both may be given, and an empty list keeps everything."),
    Setting("compression.gzip.level", INT, -1, CLUSTER_WIDE, check=Between(1, 9, also=-1),
            synonyms=("compression.gzip.level",),
            doc="How hard gzip works when the broker compresses: 1 is fastest, 9 is smallest, -1 is gzip's own "
                "default."),
    Setting("compression.lz4.level", INT, 9, CLUSTER_WIDE, check=Between(1, 17), synonyms=("compression.lz4.level",),
            doc="How hard lz4 works when the broker compresses: 1 is fastest, 17 is smallest."),
    Setting("compression.type", STRING, "producer", CLUSTER_WIDE,
            check=OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), implemented=True,
            synonyms=("compression.type",),
            doc="How batches are stored: producer keeps what the producer sent, any other value makes the broker "
                "compress again."),
    Setting("compression.zstd.level", INT, 3, CLUSTER_WIDE, check=Between(-131_072, 22),
            synonyms=("compression.zstd.level",),
            doc="How hard zstd works when the broker compresses: a larger number is smaller and slower."),
    Setting("delete.retention.ms", LONG, 86_400_000, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("log.cleaner.delete.retention.ms",),
            doc="How long the marker of a deleted key stays in a compacted topic, in milliseconds, so that "
                "readers can see it."),
    Setting("file.delete.delay.ms", LONG, 60_000, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.segment.delete.delay.ms",),
            doc="How long a removed segment's files stay on disk, in milliseconds, for readers that still hold "
                "them."),
    Setting("flush.messages", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            synonyms=("log.flush.interval.messages",),
            doc="After how many messages the log is forced to disk."),
    Setting("flush.ms", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
            doc="After how many milliseconds an unflushed message is forced to disk."),
    Setting("follower.replication.throttled.replicas", LIST, (), CLUSTER_WIDE, check=ThrottledReplicas(),
            doc="Which replicas are slowed down when they copy as followers: partition:broker pairs, or * for all."),
    Setting("index.interval.bytes", INT, 4096, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.index.interval.bytes",),
            doc="After how many bytes of records the offset index gets its next entry."),
    Setting("leader.replication.throttled.replicas", LIST, (), CLUSTER_WIDE, check=ThrottledReplicas(),
            doc="Which replicas are slowed down when they are copied from as leaders: partition:broker pairs, or "
                "* for all."),
    Setting("local.retention.bytes", LONG, -2, CLUSTER_WIDE, check=AtLeast(-2),
            synonyms=("log.local.retention.bytes",),
            doc="How many bytes of a partition stay on the local disk when older segments are in remote storage; "
                "-2 means retention.bytes."),
    Setting("local.retention.ms", LONG, -2, CLUSTER_WIDE, check=AtLeast(-2), synonyms=("log.local.retention.ms",),
            doc="How many milliseconds of a partition stay on the local disk when older segments are in remote "
                "storage; -2 means retention.ms."),
    Setting("max.compaction.lag.ms", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(1),
            synonyms=("log.cleaner.max.compaction.lag.ms",),
            doc="After how many milliseconds a record must have been looked at by compaction."),
    Setting("max.message.bytes", INT, 1_048_588, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("message.max.bytes",),
            doc="The largest batch that is accepted, in bytes, as it arrives (compressed, if it is)."),
    Setting("message.timestamp.after.max.ms", LONG, 3_600_000, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.message.timestamp.after.max.ms",),
            doc="How many milliseconds a record's timestamp may be ahead of the broker's clock."),
    Setting("message.timestamp.before.max.ms", LONG, LONG_MAX, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.message.timestamp.before.max.ms",),
            doc="How many milliseconds a record's timestamp may be behind the broker's clock."),
    Setting("message.timestamp.type", STRING, "CreateTime", CLUSTER_WIDE, check=OneOf(("CreateTime", "LogAppendTime")),
            implemented=True, synonyms=("log.message.timestamp.type",),
            doc="Whose clock gives a record its timestamp: CreateTime is the producer's, LogAppendTime is the "
                "broker's."),
    Setting("min.cleanable.dirty.ratio", DOUBLE, 0.5, CLUSTER_WIDE, check=Between(0, 1),
            synonyms=("log.cleaner.min.cleanable.ratio",),
            doc="How much of a compacted log must be uncompacted, between 0 and 1, before it is compacted again."),
    Setting("min.compaction.lag.ms", LONG, 0, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("log.cleaner.min.compaction.lag.ms",),
            doc="How many milliseconds a record stays untouched by compaction."),
    Setting("min.insync.replicas", INT, 1, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            synonyms=("min.insync.replicas",),
            doc="How many replicas must be in sync for a write with acks=all to be accepted."),
    Setting("preallocate", BOOLEAN, False, CLUSTER_WIDE, implemented=True, synonyms=("log.preallocate",),
            doc="Whether a new segment's file gets its full size at once."),
    Setting("remote.log.copy.disable", BOOLEAN, False, CLUSTER_WIDE,
            doc="Stops copying new segments to remote storage; what is there stays readable."),
    Setting("remote.log.delete.on.disable", BOOLEAN, False, CLUSTER_WIDE,
            doc="Whether remote segments are deleted when remote storage is switched off for the topic."),
    Setting("remote.storage.enable", BOOLEAN, False, CLUSTER_WIDE,
            doc="Whether old segments move to remote storage."),
    Setting("retention.bytes", LONG, -1, CLUSTER_WIDE, implemented=True, synonyms=("log.retention.bytes",),
            doc="How many bytes of a partition are kept before the oldest segments are deleted; -1 means no limit."),
    Setting("retention.ms", LONG, 604_800_000, CLUSTER_WIDE, check=AtLeast(-1), implemented=True,
            synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
            doc="How many milliseconds a record is kept before its segment may be deleted; -1 means for ever."),
    Setting("segment.bytes", INT, 1_073_741_824, CLUSTER_WIDE, check=AtLeast(1_048_576), implemented=True,
            synonyms=("log.segment.bytes",),
            doc="At which size, in bytes, a segment is closed and the next one begins."),
    Setting("segment.index.bytes", INT, 10_485_760, CLUSTER_WIDE, check=AtLeast(4), implemented=True,
            synonyms=("log.index.size.max.bytes",),
            doc="The largest size of a segment's offset index, in bytes; a full index closes the segment."),
    Setting("segment.jitter.ms", LONG, 0, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
            doc="By how many milliseconds at most segment.ms is shortened at random, so that segments do not "
                "close all at once."),
    Setting("segment.ms", LONG, 604_800_000, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            synonyms=("log.roll.ms", "log.roll.hours"),
            doc="After how many milliseconds a segment is closed even if it is not full."),
    Setting("unclean.leader.election.enable", BOOLEAN, False, CLUSTER_WIDE,
            synonyms=("unclean.leader.election.enable",),
            doc="Whether a replica that is not in sync may become leader when no other is left, which loses "
                "records."),
    Setting("internal.segment.bytes", INT, None, CLUSTER_WIDE, internal=True,
            doc="A segment size without segment.bytes' lower bound, in bytes, for tests."),
)
# fmt: on
