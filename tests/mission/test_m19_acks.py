"""M19: `acks` 0, 1, all.

That an `acks=all` write is refused when too few replicas are in sync cannot be seen on one broker: as in Kafka,
`min.insync.replicas` never asks for more than the partition has.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import raw
from brokers import PenstockProcess
from clients import Acks, Driver, Record


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_m19_each_kind_of_acks_stores_the_message(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str], acks: Acks
) -> None:
    topic = topic_on_penstock()
    told = client.produce(penstock.bootstrap, topic, [Record(b"v")] * 5, acks=acks)
    assert told == ([None] * 5 if acks == "0" else [0, 1, 2, 3, 4])
    assert len(client.consume(penstock.bootstrap, topic, 0, 5)) == 5


def test_m19_min_insync_replicas_is_at_most_the_number_of_replicas(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(min_insync_replicas="3")
    with raw.Connection(penstock.bootstrap) as connection:
        assert raw.produce(connection, topic, raw.batch([b"v"]), acks=-1).error_code == 0


def test_m19_a_refused_write_leaves_nothing_behind(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(max_message_bytes="1000")
    with raw.Connection(penstock.bootstrap) as connection:
        assert raw.produce(connection, topic, raw.batch([b"x" * 2000])).error_code != 0
        assert raw.produce(connection, topic, raw.batch([b"v"])).base_offset == 0
        assert raw.values(raw.fetch(connection, topic).records) == [b"v"]
