"""Settings that Kafka has no name for: what an acknowledgement means, where metadata is, some bounds."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast, OneOf
from penstock.broker.settings.setting import INT, LONG, STRING, Setting

# A table, two lines to a row.
# fmt: off
PENSTOCK_SETTINGS = (
    Setting("penstock.durability", STRING, "os", check=OneOf(("os", "interval", "fsync")), implemented=True,
            doc="What an acknowledgement means: os is written to the operating system (as in Kafka), interval is "
                "forced to disk every penstock.durability.interval.ms, fsync is on disk before the answer."),
    Setting("penstock.durability.interval.ms", LONG, 1000, check=AtLeast(1), implemented=True,
            doc="How many milliseconds pass between two flushes when penstock.durability is interval."),
    Setting("penstock.metadata.url", STRING, "", implemented=True,
            doc="Where topics, settings and ids are kept; empty means a SQLite file in the data directory."),
    Setting("penstock.partial.frame.timeout.ms", INT, 30_000, check=AtLeast(1), implemented=True,
            doc="How many milliseconds a request may take to arrive in full before its connection is closed."),
    Setting("penstock.max.in.flight.requests.per.connection", INT, 8, check=AtLeast(1), implemented=True,
            doc="How many requests of one connection may wait for their answers before the broker stops reading it."),
    Setting("penstock.request.object.budget", INT, 10_000, check=AtLeast(1), implemented=True,
            doc="How many topics, partitions and other items one request may name."),
    Setting("penstock.disk.reserve.bytes", LONG, 268_435_456, check=AtLeast(0), implemented=True,
            doc="How many bytes must stay free on a data disk; with less, writes are refused and reads go on."),
)
# fmt: on
