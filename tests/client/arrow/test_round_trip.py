"""A table goes into a topic and comes out again, on Penstock and on Kafka, for every library that speaks Arrow."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from brokers import Broker
from penstock.client.admin import Admin
from penstock.client.arrow.schema import HEADERS, topic_schema
from penstock.client.cluster import Cluster
from penstock.client.producer import Producer
from penstock.testing import Cluster as LocalCluster

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
TABLE = pa.table(
    {
        "key": pa.array([b"a", None, b"", b"\x00\xff", b"a"], pa.binary()),
        "value": pa.array([b"1", b"", None, b"\x80" * 300, b"5"], pa.binary()),
        "headers": pa.array(
            [[("h", b"x"), ("h", None)], None, [("\u00e9", b"")], None, [("last", b"\x00")]],
            HEADERS,
        ),
        "timestamp": pa.array([NOON] * 5, pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(log_retention_ms=-1) as running:  # timestamps here are of any time
        yield running


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(**{"retention.ms": "-1"})


def rows_of(table: pa.Table, *columns: str) -> list[tuple]:
    return list(
        zip(*(table[name].to_pylist() for name in columns or ("key", "value", "headers", "timestamp")), strict=True)
    )


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_is_read(broker: Broker, topic: str, compression: str) -> None:
    result = penstock.write(topic, TABLE, broker.bootstrap, compression=compression)
    assert result.row_count == 5
    (written,) = result.partitions.values()
    assert (written.row_count, written.base_offset, written.end_offset) == (5, 0, 5)
    read = penstock.read(topic, bootstrap=broker.bootstrap, headers=True).read_all()
    read.validate(full=True)
    assert read.schema == topic_schema(with_headers=True)
    assert rows_of(read) == rows_of(TABLE)
    assert read["offset"].to_pylist() == list(range(5))
    assert set(read["topic"].to_pylist()) == {topic}
    assert set(read["partition"].to_pylist()) == {0}
    assert set(read["timestampType"].to_pylist()) == {0}


def test_what_was_read_can_be_written(broker: Broker, new_topic: Callable[..., str]) -> None:
    source, copy = new_topic(partitions=3), new_topic(partitions=3)
    table = pa.table({"key": [f"k{number}" for number in range(100)], "value": [str(number) for number in range(100)]})
    penstock.write(source, table, broker.bootstrap)
    penstock.write(copy, penstock.read(source, bootstrap=broker.bootstrap, headers=True), broker.bootstrap)
    columns = ("partition", "offset", "key", "value", "timestamp")
    read = [penstock.read(name, bootstrap=broker.bootstrap).read_all() for name in (source, copy)]
    assert sorted(rows_of(read[0], *columns)) == sorted(rows_of(read[1], *columns))


def test_log_append_time_is_told(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    penstock.write(topic, TABLE, broker.bootstrap)
    read = penstock.read(topic, bootstrap=broker.bootstrap).read_all()
    assert set(read["timestampType"].to_pylist()) == {1}
    assert min(read["timestamp"].to_pylist()) > NOON


def test_both_types_of_timestamps_may_be_in_one_read(cluster: LocalCluster) -> None:
    topic = cluster.create_topic()
    penstock.write(topic, TABLE, cluster.bootstrap)
    with Cluster(cluster.bootstrap) as connections:
        Admin(connections).alter_configs(topic, {"message.timestamp.type": "LogAppendTime"})
    penstock.write(topic, TABLE.slice(0, 2), cluster.bootstrap)
    read = penstock.read(topic, bootstrap=cluster.bootstrap).read_all()
    assert read["timestampType"].to_pylist() == [0] * 5 + [1] * 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_values_may_be_of_any_type_of_bytes(cluster: LocalCluster, kind: pa.DataType) -> None:
    topic = cluster.create_topic()
    column = pa.array(["aa", None, "cc"], pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(pa.binary()).cast(kind)
    penstock.write(topic, pa.table({"value": column, "key": column}), cluster.bootstrap)
    read = penstock.read(topic, bootstrap=cluster.bootstrap).read_all()
    assert read["value"].to_pylist() == read["key"].to_pylist() == [b"aa", None, b"cc"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_may_have_any_unit(cluster: LocalCluster, unit: str) -> None:
    topic = cluster.create_topic()
    moments = pa.array([NOON.replace(microsecond=0), None], pa.timestamp("us", "UTC")).cast(pa.timestamp(unit))
    before = datetime.now(UTC)
    penstock.write(topic, pa.table({"value": ["a", "b"], "timestamp": moments}), cluster.bootstrap)
    first, second = penstock.read(topic, bootstrap=cluster.bootstrap).read_all()["timestamp"].to_pylist()
    assert first == NOON.replace(microsecond=0)
    assert second >= before.replace(microsecond=before.microsecond // 1000 * 1000)


def test_pandas_polars_and_duckdb_write_and_read(cluster: LocalCluster) -> None:
    topic, bootstrap = cluster.create_topic(), cluster.bootstrap
    penstock.write(topic, pandas.DataFrame({"key": ["p"], "value": ["pandas"]}), bootstrap)
    penstock.write(topic, polars.DataFrame({"key": ["q"], "value": ["polars"]}), bootstrap)
    penstock.write(topic, duckdb.sql("select 'd' as key, 'duckdb' as value"), bootstrap)
    penstock.write(topic, pa.record_batch({"key": ["r"], "value": ["arrow"]}), bootstrap)
    penstock.write(topic, iter([pa.record_batch({"key": ["i"], "value": ["batches"]})]), bootstrap)
    expected = [b"pandas", b"polars", b"duckdb", b"arrow", b"batches"]
    frame = penstock.read(topic, bootstrap=bootstrap).read_pandas()
    assert frame["value"].tolist() == expected
    assert str(frame["timestamp"].dt.tz) == "UTC"
    assert polars.from_arrow(penstock.read(topic, bootstrap=bootstrap))["value"].to_list() == expected
    records = penstock.read(topic, bootstrap=bootstrap)
    assert records is not None  # DuckDB finds it by its name
    assert duckdb.sql("select count(*), max(\"offset\") from records where value = 'duckdb'::blob").fetchall() == [
        (1, 2)
    ]


def test_a_slice_of_a_table_is_written_as_it_is_seen(cluster: LocalCluster) -> None:
    topic = cluster.create_topic()
    table = pa.concat_tables([TABLE] * 4).combine_chunks().slice(3, 11)
    penstock.write(topic, table, cluster.bootstrap)
    assert rows_of(penstock.read(topic, bootstrap=cluster.bootstrap, headers=True).read_all()) == rows_of(table)


def test_nothing_is_written_of_an_empty_table(cluster: LocalCluster) -> None:
    topic = cluster.create_topic()
    for nothing in (TABLE.slice(0, 0), iter([])):
        result = penstock.write(topic, nothing, cluster.bootstrap)
        assert (result.row_count, result.partitions) == (0, {})
    read = penstock.read(topic, bootstrap=cluster.bootstrap, columns=["offset", "value"]).read_all()
    assert read.num_rows == 0
    assert read.schema == topic_schema(["offset", "value"])


maybe_bytes = st.none() | st.binary(max_size=60)
header_lists = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=6), "value": maybe_bytes}), min_size=1, max_size=3
)
moments = st.integers(0, 1_700_000_000_000).map(lambda ms: datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms))
table_rows = st.lists(st.tuples(maybe_bytes, maybe_bytes, header_lists, moments), min_size=1, max_size=40)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=table_rows, cuts=st.lists(st.integers(0, 40), max_size=3), codec=st.sampled_from(["none", "zstd"]))
def test_any_table_survives(cluster: LocalCluster, rows: list[tuple], cuts: list[int], codec: str) -> None:
    kinds = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS, "timestamp": pa.timestamp("us", "UTC")}
    columns = {name: pa.array(column, kinds[name]) for name, column in zip(kinds, zip(*rows, strict=True), strict=True)}
    table = pa.table(columns)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    pieces = [table.slice(start, stop - start) for start, stop in pairwise(edges)]
    topic = cluster.create_topic(f"h-{uuid.uuid4().hex[:12]}")
    for piece in pieces:
        penstock.write(topic, piece, cluster.bootstrap, compression=codec)
    read = penstock.read(topic, bootstrap=cluster.bootstrap, headers=True, batch_rows=7).read_all()
    read.validate(full=True)
    assert rows_of(read) == rows_of(table)


def test_what_another_client_wrote_is_read(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as connections, Producer(connections, batch_bytes=2_000) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number, key=b"k", headers=(("n", b"%d" % number),))
    read = penstock.read(topic, bootstrap=broker.bootstrap, headers=True, batch_rows=100)
    sizes, numbers = [], []
    for batch in read:
        sizes.append(batch.num_rows)
        numbers += [headers[0]["value"] for headers in batch["headers"].to_pylist()]
    assert max(sizes) <= 100
    assert numbers == [b"%d" % number for number in range(500)]
