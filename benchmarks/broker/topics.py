"""Topics for one run: created, known to be usable, checked at the end, deleted."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import raw

from .systems import System

USABLE_TIMEOUT_SECONDS = 60.0
LATEST = -1
TOPIC_ALREADY_EXISTS = 36
_numbers = itertools.count()


@contextmanager
def temporary_topic(system: System, partitions: int = 1) -> Iterator[str]:
    """A new topic whose partitions all have leaders that answer; deleted at the end."""
    name = f"bench-{os.getpid() % 100_000:05}-{next(_numbers):04}"
    with raw.Connection(system.bootstrap) as connection:
        raw.create_topic(connection, name, partitions)
        _wait_until_usable(connection, name, partitions)
    try:
        yield name
    finally:
        with raw.Connection(system.bootstrap) as connection:
            connection.call("DeleteTopics", 5, topic_names=[name], timeout_ms=30_000)


@contextmanager
def lasting_topic(system: System, partitions: int) -> Iterator[str]:
    """The topic of that many partitions that stays for the whole benchmark: 1,000 partitions are slow to make."""
    name = f"bench-wide-{partitions:04}"
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    with raw.Connection(system.bootstrap, timeout_seconds=USABLE_TIMEOUT_SECONDS) as connection:
        answer = connection.call("CreateTopics", 7, topics=[topic], timeout_ms=30_000, validate_only=False).topics[0]
        if answer.error_code not in (0, TOPIC_ALREADY_EXISTS):
            raise RuntimeError(f"{system.name} could not create {name}: {answer}")
        _wait_until_usable(connection, name, partitions)
    yield name


def count_records(system: System, topic: str, partitions: int) -> int:
    with raw.Connection(system.bootstrap) as connection:
        return sum(end_offsets(connection, topic, partitions))


def check_written(system: System, topic: str, partitions: int, records: int) -> None:
    """The log must hold every record that was acknowledged, and no other."""
    found = count_records(system, topic, partitions)
    if found != records:
        raise RuntimeError(f"{system.name}: {records} records were acknowledged, and the log holds {found}")


def end_offsets(connection: raw.Connection, topic: str, partitions: int) -> list[int]:
    """The log end offset of each partition, -1 where there is no leader yet."""
    asked = [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]
    topics = [{"name": topic, "partitions": asked}]
    response = connection.call("ListOffsets", 6, replica_id=-1, isolation_level=0, topics=topics)
    answers = {entry.partition_index: entry for entry in response.topics[0].partitions}
    return [answers[index].offset if answers[index].error_code == 0 else -1 for index in range(partitions)]


def _wait_until_usable(connection: raw.Connection, topic: str, partitions: int) -> None:
    # Kafka answers CreateTopics a moment before its replica manager leads the partitions.
    deadline = time.monotonic() + USABLE_TIMEOUT_SECONDS
    while -1 in end_offsets(connection, topic, partitions):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was not usable in {USABLE_TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.02)
