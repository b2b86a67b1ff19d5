"""M05: a partition is a directory, cut into segments; the files of a segment are named by its first offset."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import raw
from brokers import PenstockProcess

SEGMENT_BYTES = 1 << 20
VALUE = b"x" * 100_000


def segment_names(directory: Path) -> list[str]:
    return sorted(file.stem for file in directory.glob("*.log"))


def test_m05_a_full_segment_is_closed_and_the_next_is_named_by_its_first_offset(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(segment_bytes=str(SEGMENT_BYTES))
    with raw.Connection(penstock.bootstrap) as connection:
        for _ in range(35):
            raw.produce(connection, topic, raw.batch([VALUE]))
    directory = penstock.log_dir / f"{topic}-0"
    assert segment_names(directory) == [f"{first:020d}" for first in (0, 10, 20, 30)]
    for name in segment_names(directory)[:-1]:
        assert (directory / f"{name}.index").exists()
        assert (directory / f"{name}.timeindex").exists()
        assert (directory / f"{name}.log").stat().st_size <= SEGMENT_BYTES
    with raw.Connection(penstock.bootstrap) as connection:
        assert len(raw.values(raw.fetch(connection, topic, 5, max_bytes=1).records)) == 1


def test_m05_an_old_segment_is_closed_by_time(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    """`segment.ms` of a topic is `log.roll.ms` of the broker; the times are the records' own."""
    topic = topic_on_penstock(segment_ms="1000")
    now = int(time.time() * 1000)
    with raw.Connection(penstock.bootstrap) as connection:
        for age_ms in (20_000, 10_000, 0):
            raw.produce(connection, topic, raw.batch([b"v"], timestamp=now - age_ms))
    assert segment_names(penstock.log_dir / f"{topic}-0") == [f"{first:020d}" for first in (0, 1, 2)]


def test_m05_the_brokers_settings_are_the_default_of_its_topics(tmp_path: Path) -> None:
    settings = {"log.segment.bytes": str(SEGMENT_BYTES), "log.roll.hours": "1"}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        now = int(time.time() * 1000)
        for _ in range(15):
            raw.produce(connection, "t", raw.batch([VALUE], timestamp=now - 7_300_000))
        raw.produce(connection, "t", raw.batch([b"v"], timestamp=now))
        assert segment_names(broker.log_dir / "t-0") == [f"{first:020d}" for first in (0, 10, 15)]
