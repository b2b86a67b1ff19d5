"""The records of the metadata store: round trips, fields of a newer version, and what is said of a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata import records
from penstock.metadata.records import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    CounterRecord,
    Endpoint,
    PartitionRecord,
    RecordError,
    TopicRecord,
)
from penstock.types import TopicId

ID = TopicId(bytes(range(16)))

EXAMPLES: list[tuple[str, Any, Callable[[str, bytes], Any]]] = [
    (records.CLUSTER_ID_KEY, ClusterRecord("AAECAwQFBgcICQoLDA0ODw"), records.decode_cluster),
    (
        records.broker_key(7),
        BrokerRecord(7, 3, (Endpoint("PLAINTEXT", "localhost", 9092), Endpoint("TLS", "", 9093, "SSL")), "rack-1"),
        records.decode_broker,
    ),
    (records.broker_key(0), BrokerRecord(0, 1, ()), records.decode_broker),
    (records.CONTROLLER_KEY, ControllerRecord(7, 12), records.decode_controller),
    (
        records.topic_key("orders"),
        TopicRecord("orders", ID, {0: (1, 2), 1: (2, 1)}, 1_700_000_000_000),
        records.decode_topic,
    ),
    (records.partition_key(ID, 1), PartitionRecord(2, 5, (2, 1), 9), records.decode_partition),
    (records.topic_config_key("orders"), ConfigRecord({"retention.ms": "1000"}), records.decode_config),
    (records.PRODUCER_IDS_KEY, CounterRecord(3000), records.decode_counter),
]
IDS = [type(record).__name__ for _, record, _ in EXAMPLES]


@pytest.mark.parametrize(("key", "record", "decode"), EXAMPLES, ids=IDS)
def test_a_record_is_read_back_as_it_was_written(key: str, record: Any, decode: Callable[[str, bytes], Any]) -> None:
    assert decode(key, record.encode()) == record


@pytest.mark.parametrize(("key", "record", "decode"), EXAMPLES, ids=IDS)
def test_fields_that_we_do_not_know_survive(key: str, record: Any, decode: Callable[[str, bytes], Any]) -> None:
    fields = json.loads(record.encode())
    fields["from_the_future"] = {"a": [1, None]}
    again = json.loads(decode(key, json.dumps(fields).encode()).encode())
    assert again == fields


@pytest.mark.parametrize(("key", "record", "decode"), EXAMPLES, ids=IDS)
def test_a_missing_or_wrong_field_names_the_key(key: str, record: Any, decode: Callable[[str, bytes], Any]) -> None:
    fields = json.loads(record.encode())
    for name in fields:
        if name == "rack":
            continue
        for broken in ({k: v for k, v in fields.items() if k != name}, {**fields, name: 1.5}, {**fields, name: [None]}):
            with pytest.raises(RecordError, match=key):
                decode(key, json.dumps(broken).encode())


@pytest.mark.parametrize(("key", "record", "decode"), EXAMPLES, ids=IDS)
def test_a_form_of_the_future_is_refused(key: str, record: Any, decode: Callable[[str, bytes], Any]) -> None:
    fields = json.loads(record.encode()) | {"version": 2}
    with pytest.raises(RecordError, match="newer Penstock"):
        decode(key, json.dumps(fields).encode())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"{}"])
def test_what_is_not_a_json_object_is_refused(value: bytes) -> None:
    for key, _, decode in EXAMPLES:
        with pytest.raises(RecordError, match="cannot be read"):
            decode(key, value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_the_bytes_are_only_a_record_error_comes(value: bytes) -> None:
    for key, _, decode in EXAMPLES:
        with pytest.raises(RecordError):
            decode(key, value)


def test_partitions_with_a_gap_are_refused() -> None:
    value = TopicRecord("t", ID, {0: (1,), 2: (1,)}, 0).encode()
    with pytest.raises(RecordError, match="numbered"):
        records.decode_topic(records.topic_key("t"), value)


def test_a_partition_key_holds_the_topic_id_and_the_partition() -> None:
    assert records.partition_from_key(records.partition_key(ID, 12)) == (ID, 12)
    for key in (
        "/partitions/",
        "/partitions/x/0",
        "/partitions/AAECAwQFBgcICQoLDA0ODw/",
        "/partitions/AAECAwQFBgcICQoLDA0ODw",
    ):
        with pytest.raises(RecordError):
            records.partition_from_key(key)


@given(st.text(min_size=1))
def test_any_group_has_a_key_of_one_level(group: str) -> None:
    key = records.group_config_key(group)
    assert "/" not in key.removeprefix(records.GROUP_CONFIGS_PREFIX)
    assert records.group_from_config_key(key) == group
