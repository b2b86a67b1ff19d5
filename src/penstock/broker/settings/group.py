"""Settings of a consumer, share or streams group. A group that does not set one uses the broker's in `synonyms`."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast, OffsetReset, OneOf
from penstock.broker.settings.setting import BOOLEAN, CLUSTER_WIDE, INT, STRING, Setting

# A table, two lines to a row.
# fmt: off
GROUP_SETTINGS = (
    Setting("consumer.assignment.interval.ms", INT, 0, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            synonyms=("group.consumer.assignment.interval.ms",), differs="as the broker's",
            doc="The shortest time, in milliseconds, between two assignments of this consumer group."),
    Setting("consumer.heartbeat.interval.ms", INT, 5000, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            synonyms=("group.consumer.heartbeat.interval.ms",),
            doc="How often members of this consumer group send a heartbeat, in milliseconds."),
    Setting("consumer.session.timeout.ms", INT, 45_000, CLUSTER_WIDE, check=AtLeast(1), implemented=True,
            synonyms=("group.consumer.session.timeout.ms",),
            doc="After how many milliseconds without a heartbeat a member of this consumer group is gone."),
    Setting("share.assignment.interval.ms", INT, 1000, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("group.share.assignment.interval.ms",),
            doc="The shortest time, in milliseconds, between two assignments of this share group."),
    Setting("share.auto.offset.reset", STRING, "latest", CLUSTER_WIDE, check=OffsetReset(),
            doc="Where this share group begins: earliest, latest, or by_duration:PERIOD for so long ago."),
    Setting("share.delivery.count.limit", INT, 5, CLUSTER_WIDE, check=AtLeast(2),
            synonyms=("group.share.delivery.count.limit",),
            doc="How many times a record is delivered to this share group before it is given up."),
    Setting("share.heartbeat.interval.ms", INT, 5000, CLUSTER_WIDE, check=AtLeast(1),
            synonyms=("group.share.heartbeat.interval.ms",),
            doc="How often members of this share group send a heartbeat, in milliseconds."),
    Setting("share.isolation.level", STRING, "read_uncommitted", CLUSTER_WIDE,
            check=OneOf(("read_committed", "read_uncommitted")),
            doc="Whether this share group sees records of open transactions: read_uncommitted or read_committed."),
    Setting("share.partition.max.record.locks", INT, 2000, CLUSTER_WIDE, check=AtLeast(100),
            synonyms=("group.share.partition.max.record.locks",),
            doc="How many records of one partition this share group may hold locked at a time."),
    Setting("share.record.lock.duration.ms", INT, 30_000, CLUSTER_WIDE, check=AtLeast(1000),
            synonyms=("group.share.record.lock.duration.ms",),
            doc="How many milliseconds a member of this share group may hold a record before others get it."),
    Setting("share.renew.acknowledge.enable", BOOLEAN, True, CLUSTER_WIDE,
            doc="Whether members of this share group may extend their hold on a record."),
    Setting("share.session.timeout.ms", INT, 45_000, CLUSTER_WIDE, check=AtLeast(1),
            synonyms=("group.share.session.timeout.ms",),
            doc="After how many milliseconds without a heartbeat a member of this share group is gone."),
    Setting("streams.assignment.interval.ms", INT, 1000, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("group.streams.assignment.interval.ms",),
            doc="The shortest time, in milliseconds, between two assignments of this streams group."),
    Setting("streams.heartbeat.interval.ms", INT, 5000, CLUSTER_WIDE, check=AtLeast(1),
            synonyms=("group.streams.heartbeat.interval.ms",),
            doc="How often members of this streams group send a heartbeat, in milliseconds."),
    Setting("streams.initial.rebalance.delay.ms", INT, 3000, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("group.streams.initial.rebalance.delay.ms",),
            doc="How many milliseconds the first rebalance of this group waits for more members when it is empty."),
    Setting("streams.num.standby.replicas", INT, 0, CLUSTER_WIDE, check=AtLeast(0),
            synonyms=("group.streams.num.standby.replicas",),
            doc="How many standby copies each task of this streams group gets."),
    Setting("streams.session.timeout.ms", INT, 45_000, CLUSTER_WIDE, check=AtLeast(1),
            synonyms=("group.streams.session.timeout.ms",),
            doc="After how many milliseconds without a heartbeat a member of this streams group is gone."),
)
# fmt: on
