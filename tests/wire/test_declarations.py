"""Our declarations against Apache Kafka's own definitions, field by field, where those are at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.wire import api
from penstock.wire.consumer_assignment import ConsumerProtocolAssignment
from penstock.wire.consumer_subscription import ConsumerProtocolSubscription
from penstock.wire.coordinator import RecordType, consumer_group, group_metadata, offset_commit, transaction_log
from penstock.wire.schema import NO_VERSIONS, Kind, layout_of, versions

PROTOCOL = Path(__file__).resolve().parents[3] / "shared" / "kafka-protocol"
KINDS = {kind.name.lower(): kind for kind in Kind}

pytestmark = pytest.mark.skipif(not PROTOCOL.exists(), reason="Kafka's definitions are not beside the repository")

RECORDS = [
    value
    for module in (offset_commit, group_metadata, consumer_group, transaction_log)
    for value in vars(module).values()
    if isinstance(value, RecordType)
]
EVERY_API = pytest.mark.parametrize("key", list(api.MODULES), ids=list(api.MODULES.values()))


def definition_of(name, folder="messages"):
    text = (PROTOCOL / folder / f"{name}.json").read_text()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


@EVERY_API
def test_a_message_is_declared_as_kafka_defines_it(key):
    one = api.load(key)
    for cls in (one.request, one.response):
        defined = definition_of(cls.__name__)
        assert defined["apiKey"] == key
        check_message(cls, defined)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.key.__name__.removesuffix("Key"))
def test_a_coordinator_record_is_declared_as_kafka_defines_it(record):
    for cls in (record.key, record.value):
        kind = "transaction" if cls.__name__.startswith("Transaction") else "group"
        defined = definition_of(cls.__name__, f"{kind}-coordinator")
        assert defined["apiKey"] == record.number
        check_message(cls, defined)


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_what_consumers_tell_each_other_is_declared_as_kafka_defines_it(cls):
    check_message(cls, definition_of(cls.__name__))


def check_message(cls, defined):
    layout = layout_of(cls)
    assert layout.versions == versions(defined["validVersions"])
    assert layout.flexible == versions(defined["flexibleVersions"])
    check_fields(layout.fields, defined["fields"], cls.__name__, common_structs(defined))


@EVERY_API
def test_the_versions_that_we_take_are_those_that_kafka_advertises(key):
    one = api.load(key)
    advertised = json.loads((PROTOCOL / "apis-4.3.0.json").read_text())["apis"]
    number, low, high = advertised[one.name]
    assert number == key
    assert one.versions.high == high
    assert one.versions.low == (3 if one.name == "Produce" else low)  # KAFKA-18659: advertised from 0, taken from 3
    assert one.latest_is_unstable == definition_of(one.request.__name__).get("latestVersionUnstable", False)


def common_structs(defined):
    """Structs that several fields of a message share, by name."""
    return {struct["name"]: struct["fields"] for struct in defined.get("commonStructs", [])}


def check_fields(declared, defined, where, common):
    assert [field.name for field in declared] == [snake_case(field["name"]) for field in defined], where
    for ours, theirs in zip(declared, defined, strict=True):
        check_field(ours, theirs, f"{where}.{ours.name}", common)


def check_field(ours, theirs, where, common):
    element = theirs["type"].removeprefix("[]")
    assert ours.is_array == theirs["type"].startswith("[]"), where
    assert ours.versions == versions(theirs.get("versions") or theirs["taggedVersions"]), where
    assert ours.nullable == versions(theirs.get("nullableVersions", "none")), where
    assert ours.tag == theirs.get("tag"), where
    assert ours.tagged == versions(theirs.get("taggedVersions", "none")), where
    assert ours.ignorable == theirs.get("ignorable", False), where
    if element in KINDS:
        assert ours.kind is KINDS[element], where
    else:
        assert ours.kind.__name__ == element, where
        check_fields(layout_of(ours.kind).fields, theirs.get("fields") or common[element], where, common)
    check_default(ours, theirs, element, where)


def check_default(ours, theirs, element, where):
    text = "null" if theirs.get("default", "") is None else str(theirs.get("default", "")).lower()
    if text == "null" or (element not in KINDS and not ours.is_array):
        # A nested struct that is a tag, or may be null, is absent by default.
        absent = ours.tag is not None or ours.nullable != NO_VERSIONS
        assert ours.default is (None if absent else ours.kind), where
    elif ours.is_array:
        assert ours.default is not None, where
    elif element == "bool":
        assert ours.default is (text == "true"), where
    elif element == "string":
        assert ours.default == theirs.get("default", ""), where
    elif element == "bytes":
        assert ours.default == b"", where
    elif element == "uuid":
        assert ours.default == bytes(16), where
    elif element == "records":
        assert ours.default is None, where
    else:
        assert ours.default == int(text or "0", 0), where


def snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
