"""`penstock.read` from and to where one says, and the async twins."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import penstock
from brokers import Broker
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.errors import ConfigError, KafkaError
from penstock.types import TopicPartition

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def hours(broker: Broker, new_topic: Callable[..., str]) -> str:
    """Two partitions with a record for each of ten hours."""
    topic = new_topic(partitions=2, **{"retention.ms": "-1"})  # they are old
    moments = [START + timedelta(hours=hour) for hour in range(10)] * 2
    table = pa.table({"value": ["x"] * 20, "partition": [0] * 10 + [1] * 10, "timestamp": moments})
    penstock.write(topic, table, broker.bootstrap)
    return topic


def offsets(broker: Broker, topic: str, *args: object, **options: object) -> dict[int, list[int]]:
    table = penstock.read(topic, *args, bootstrap=broker.bootstrap, **options).read_all()
    found: dict[int, list[int]] = {}
    for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
        found.setdefault(partition, []).append(offset)
    return found


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, {0: range(10), 1: range(10)}),
        ("earliest", "latest", {0: range(10), 1: range(10)}),
        (3, 5, {0: range(3, 5), 1: range(3, 5)}),
        (8, 1000, {0: range(8, 10), 1: range(8, 10)}),
        (1000, None, {}),
        ("latest", None, {}),
        ({1: 4}, None, {1: range(4, 10)}),
        ({0: 1, 1: 4}, {1: 6}, {1: range(4, 6)}),
        (START + timedelta(hours=2), START + timedelta(hours=4), {0: range(2, 4), 1: range(2, 4)}),
        (START + timedelta(hours=2, microseconds=1), None, {0: range(3, 10), 1: range(3, 10)}),
        (START + timedelta(days=5), None, {}),
    ],
    ids=str,
)
def test_start_and_end(broker: Broker, hours: str, start: object, end: object, expected: dict) -> None:
    assert offsets(broker, hours, start, end) == {partition: list(each) for partition, each in expected.items()}


@pytest.mark.parametrize("position", [-1, True, "begin", 1.5, {0: -3}], ids=str)
def test_a_position_that_means_nothing_is_an_error(broker: Broker, hours: str, position: object) -> None:
    with pytest.raises(ConfigError, match="is not a place to start or to end"):
        offsets(broker, hours, position)


def test_what_cannot_be_read_is_said_at_once(broker: Broker, hours: str, name: str) -> None:
    with pytest.raises(UnknownTopicError):
        penstock.read(name, bootstrap=broker.bootstrap)
    with pytest.raises(KafkaError, match="has no partition 9"):
        penstock.read(hours, {9: 0}, bootstrap=broker.bootstrap)
    with pytest.raises(ConfigError, match="has no time zone"):
        penstock.read(hours, START.replace(tzinfo=None), bootstrap=broker.bootstrap)
    with pytest.raises(ConfigError, match="isolation='serializable' is not known"):
        penstock.read(hours, bootstrap=broker.bootstrap, isolation="serializable")
    with pytest.raises(ConfigError, match="compression='brotli' is not known"):
        penstock.write(hours, pa.table({"value": ["x"]}), broker.bootstrap, compression="brotli")
    with pytest.raises(KafkaError, match="No broker answered"):
        penstock.read(hours, bootstrap="127.0.0.1:1")


def test_deleted_records_are_an_error_or_left_out(broker: Broker, hours: str) -> None:
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).delete_records({TopicPartition(hours, 0): 4})
    with pytest.raises(penstock.DataLossError, match=f"{hours}-0: offset 0 is wanted"):
        offsets(broker, hours, 0)
    assert offsets(broker, hours, 0, on_missing="skip") == {0: list(range(4, 10)), 1: list(range(10))}
    assert offsets(broker, hours) == {0: list(range(4, 10)), 1: list(range(10))}


def test_reading_ends_where_the_topic_ended_when_it_began(broker: Broker, topic: str) -> None:
    one = pa.table({"value": ["x"]})
    penstock.write(topic, one, broker.bootstrap)
    reader = penstock.read(topic, bootstrap=broker.bootstrap)
    penstock.write(topic, one, broker.bootstrap)
    assert reader.read_all().num_rows == 1


def test_the_async_twins_do_the_same(broker: Broker, hours: str) -> None:
    async def copy() -> tuple[int, int]:
        rows = 0
        async for batch in penstock.read_async(hours, bootstrap=broker.bootstrap, batch_rows=4):
            assert batch.num_rows <= 4
            rows += batch.num_rows
        result = await penstock.write_async(hours, pa.table({"value": ["y"] * 7}), broker.bootstrap)
        return rows, result.row_count

    assert asyncio.run(copy()) == (20, 7)


def test_leaving_an_async_read_ends_its_thread(broker: Broker, hours: str) -> None:
    async def first() -> None:
        batches = penstock.read_async(hours, bootstrap=broker.bootstrap, batch_rows=1)
        async for _ in batches:
            break
        await batches.aclose()

    asyncio.run(first())
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-fetch"]


def test_arrow_is_loaded_only_when_it_is_used() -> None:
    look = "print('pyarrow' in sys.modules)"
    code = f"import sys, penstock, penstock.client.cluster; {look}; penstock.read; {look}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_without_pyarrow_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import penstock; penstock.read"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'penstock[client]'" in done.stderr
