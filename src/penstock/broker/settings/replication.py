"""Settings of followers and leaders: how records are copied, and who may lead."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast
from penstock.broker.settings.setting import BOOLEAN, CLUSTER_WIDE, INT, LONG, STRING, Setting

# A table, two lines to a row.
# fmt: off
REPLICATION_SETTINGS = (
    Setting("auto.leader.rebalance.enable", BOOLEAN, True,
            doc="Whether leadership moves back to the preferred replica by itself."),
    Setting("leader.imbalance.check.interval.seconds", LONG, 300, check=AtLeast(1),
            doc="How often the broker looks whether leadership should move back, in seconds."),
    Setting("num.replica.alter.log.dirs.threads", INT, None,
            doc="How many threads move replicas between log directories; unset means one for each directory."),
    Setting("num.replica.fetchers", INT, 1, CLUSTER_WIDE, check=AtLeast(1),
            doc="How many connections a follower uses to copy from each leader."),
    Setting("replica.fetch.backoff.ms", INT, 1000, check=AtLeast(0),
            doc="How many milliseconds a follower waits after a failed fetch."),
    Setting("replica.fetch.max.bytes", INT, 1_048_576, check=AtLeast(0),
            doc="How many bytes of one partition a follower asks for in one fetch."),
    Setting("replica.fetch.min.bytes", INT, 1,
            doc="How many bytes a follower waits for before a fetch is answered."),
    Setting("replica.fetch.response.max.bytes", INT, 10_485_760, check=AtLeast(0),
            doc="How many bytes a follower asks for in one fetch, all partitions together."),
    Setting("replica.fetch.wait.max.ms", INT, 500,
            doc="How many milliseconds a follower's fetch may wait for new records."),
    Setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5000,
            doc="How often the high watermarks are written down, in milliseconds."),
    Setting("replica.lag.time.max.ms", LONG, 30_000,
            doc="After how many milliseconds without catching up a follower is no longer in sync."),
    Setting("replica.selector.class", STRING, None,
            doc="A Java class that chooses the replica that a consumer reads from."),
    Setting("replica.socket.receive.buffer.bytes", INT, 65_536,
            doc="The receive buffer, in bytes, of the sockets that followers copy through."),
    Setting("replica.socket.timeout.ms", INT, 30_000,
            doc="How many milliseconds a follower waits for a leader's answer."),
    Setting("unclean.leader.election.enable", BOOLEAN, False, CLUSTER_WIDE,
            doc="Whether a replica that is not in sync may become leader when no other is left, which loses "
                "records."),
    Setting("unclean.leader.election.interval.ms", LONG, 300_000, check=AtLeast(1), internal=True,
            doc="How often partitions that wait for an unclean election are looked at, in milliseconds."),
    Setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, CLUSTER_WIDE,
            doc="Whether an empty follower starts at the end of what is in remote storage."),
    Setting("follower.replication.throttled.rate", LONG, None, CLUSTER_WIDE, check=AtLeast(0), dynamic_only=True,
            doc="How many bytes each second followers on this broker may copy of throttled replicas."),
    Setting("leader.replication.throttled.rate", LONG, None, CLUSTER_WIDE, check=AtLeast(0), dynamic_only=True,
            doc="How many bytes each second leaders on this broker may send of throttled replicas."),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, None, CLUSTER_WIDE, check=AtLeast(0),
            dynamic_only=True,
            doc="How many bytes each second may move between this broker's log directories."),
)
# fmt: on
