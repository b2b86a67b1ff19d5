"""M06: a message is found by offset and by time, through a sparse index, in time that does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka

import raw
from brokers import PenstockProcess
from clients import Driver

COUNT = 3000
OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES = 8, 12


def fill(penstock: PenstockProcess, topic: str) -> None:
    """One batch per record, a second apart, about 1 KB each: 3 MB."""
    with raw.Connection(penstock.bootstrap) as connection:
        batches = [raw.batch([b"%d" % n * 250], timestamp=raw.RECENT + n * 1000) for n in range(COUNT)]
        frames = [connection.frame("Produce", 11, **raw.produce_fields(topic, batch)) for batch in batches]
        for start in range(0, COUNT, 100):
            connection.send_bytes(b"".join(frames[start : start + 100]))
            for number in range(start, start + 100):
                connection.receive("Produce", 11, number + 1)


def test_m06_any_message_by_offset_and_by_time(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(message_timestamp_after_max_ms=str(10**10))
    fill(penstock, topic)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": penstock.bootstrap, "group.id": "unused"})
    for offset in (0, 1, 777, 1500, COUNT - 1):
        (record,) = client.consume(penstock.bootstrap, topic, offset, 1)
        assert (record.offset, record.value) == (offset, b"%d" % offset * 250)
        asked = confluent_kafka.TopicPartition(topic, 0, raw.RECENT + offset * 1000 - 999)
        assert consumer.offsets_for_times([asked], timeout=20)[0].offset == offset
    consumer.close()


def test_m06_the_indexes_are_sparse(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    """An entry for every 4 KB of log at most (`index.interval.bytes`), however many batches there are."""
    topic = topic_on_penstock(message_timestamp_after_max_ms=str(10**10), segment_bytes=str(1 << 20))
    fill(penstock, topic)
    directory = penstock.log_dir / f"{topic}-0"
    closed = sorted(directory.glob("*.log"))[:-1]
    assert closed, "a closed segment's index is cut to its entries"
    for log in closed:
        entries = log.with_suffix(".index").stat().st_size // OFFSET_ENTRY_BYTES
        assert 0 < entries <= log.stat().st_size // 4096
        assert 0 < log.with_suffix(".timeindex").stat().st_size // TIME_ENTRY_BYTES <= entries + 1
