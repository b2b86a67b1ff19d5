"""M15: gzip, snappy, lz4, zstd end to end; stored as sent; `compression.type` on a topic recompresses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import raw
from brokers import PenstockProcess
from clients import COMPRESSIONS, Driver, Record


def stored_codecs(penstock: PenstockProcess, topic: str) -> set[int]:
    with raw.Connection(penstock.bootstrap) as connection:
        return {batch.compression_type for batch in raw.batches(raw.fetch(connection, topic).records)}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_m15_stored_as_sent_and_read_back(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str], compression: str
) -> None:
    topic = topic_on_penstock()
    sent = [b"%d " % number * 50 for number in range(200)]
    client.produce(penstock.bootstrap, topic, [Record(value) for value in sent], compression=compression)
    assert stored_codecs(penstock, topic) == {COMPRESSIONS.index(compression)}
    assert [record.value for record in client.consume(penstock.bootstrap, topic, 0, 200)] == sent


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_m15_a_topic_may_have_a_compression_of_its_own(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str], compression: str
) -> None:
    topic = topic_on_penstock(compression_type=compression)
    sent = [b"%d " % number * 50 for number in range(200)]
    client.produce(penstock.bootstrap, topic, [Record(value) for value in sent])
    assert stored_codecs(penstock, topic) == {COMPRESSIONS.index(compression)}
    assert [record.value for record in client.consume(penstock.bootstrap, topic, 0, 200)] == sent
