"""When a change can be seen: at once on Penstock, a moment later on Kafka.

Penstock answers a change when it can be seen and used, so it is asked exactly once. Kafka answers when its controller
has written the change, and its broker takes it up after that, so it is asked until it has:

    admin.delete_topic(name)
    check_seen(broker, lambda: name in admin.list_topics(), False)

Changes that a broker makes by itself need none of this, for both answer them when they are done: records that are
produced or deleted, offsets, members, groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import raw
from brokers import Broker

T = TypeVar("T")
SEEN_TIMEOUT_SECONDS = 60.0
"""Long enough for a Kafka on a machine that does much else."""


def check_seen(broker: Broker, read: Callable[[], T], expected: T) -> None:
    """What is read after a change is what is expected."""
    deadline = time.monotonic() + (SEEN_TIMEOUT_SECONDS if broker.name == "kafka" else 0)
    while (found := read()) != expected:
        assert time.monotonic() < deadline, f"{found!r} was read after a change, and not {expected!r}"
        time.sleep(0.02)


def check_created(broker: Broker, connection: raw.Connection, topic: str, partitions: int = 1) -> None:
    """Every partition has a leader that serves it."""
    check_seen(broker, lambda: _codes(connection, topic, partitions), {raw.Code.none})


def check_deleted(broker: Broker, connection: raw.Connection, topic: str, partitions: int = 1) -> None:
    """Nothing can be written to the topic any more.

    Kafka forgets a topic's name first and its logs after that. It answers ListOffsets from the logs while it has them,
    so that this code means that it has neither.
    """
    check_seen(broker, lambda: _codes(connection, topic, partitions), {raw.Code.unknown_topic_or_partition})


def _codes(connection: raw.Connection, topic: str, partitions: int) -> set[raw.Code]:
    """What each partition's log answers when it is asked for its end."""
    asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    response = connection.call("ListOffsets", 6, replica_id=-1, topics=[{"name": topic, "partitions": asked}])
    return {raw.Code(partition.error_code) for partition in response.topics[0].partitions}
