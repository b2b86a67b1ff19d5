"""Two independent codecs, kio and kafka-python, on our bytes: they read the same values and write the same bytes back.

What they write equals what we wrote; that we read it is what `test_messages` shows. Values are held to what those
libraries can express: kio knows only Kafka's own error codes, and times as `datetime`.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from enum import Enum
from random import Random

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer  # noqa: F401 - each declares messages
import kio.index
import pytest
from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer

from messages import any_message, every_message, name_of
from penstock.wire import api
from penstock.wire.api.api_versions import ApiVersionsResponse
from penstock.wire.compile import encode
from penstock.wire.schema import Kind, layout_of

EXAMPLES = 8
KAFKA_PYTHON = {cls.__name__: cls for cls in ApiMessage.__subclasses__()}
AS_BITS = dict.fromkeys(
    ("authorized_operations", "cluster_authorized_operations", "topic_authorized_operations"), "authorized_operations"
)
"""What kafka-python calls them; the values are sets of bits, None for the highest alone."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_class(cls, version):
    one = next(api.load(key) for key in api.MODULES if cls in (api.load(key).request, api.load(key).response))
    load = kio.index.load_request_schema if cls is one.request else kio.index.load_response_schema
    return load(one.key, version)


def shared_with_kio():
    for cls, version in every_message():
        try:
            kio_class(cls, version)
        except (KeyError, kio.index.KioIndexError):
            continue
        yield cls, version


def shared_with_kafka_python():
    for cls, version in every_message():
        theirs = KAFKA_PYTHON.get(cls.__name__)
        if theirs is not None and version <= theirs.max_version:
            yield cls, version


@pytest.mark.parametrize(("cls", "version"), list(shared_with_kio()), ids=name_of)
def test_kio_reads_and_writes_the_same(cls, version):
    theirs = kio_class(cls, version)
    for seed in range(EXAMPLES):
        message = tame(any_message(Random(seed), cls, version, unknown_tags=False))
        data = bytes(encode(message, version))
        read, size = entity_reader(theirs)(data, 0)
        assert size == len(data)
        check_same(message, read, version, [field.name for field in dataclasses.fields(read)])
        written = io.BytesIO()
        entity_writer(theirs)(written, read)
        assert written.getvalue() == data


@pytest.mark.parametrize(("cls", "version"), list(shared_with_kafka_python()), ids=name_of)
def test_kafka_python_reads_and_writes_the_same(cls, version):
    for seed in range(EXAMPLES):
        message = tame(any_message(Random(seed), cls, version, unknown_tags=False))
        data = bytes(encode(message, version))
        read = KAFKA_PYTHON[cls.__name__].decode(data, version=version)
        check_same(message, read, version, None)
        read._header = None  # it looks for one, and decoding without a header leaves none
        assert bytes(read.encode()) == data


def test_the_libraries_cover_most_versions():
    everything = set(every_message())
    assert len(set(shared_with_kio())) > 0.9 * len(everything)
    assert len(set(shared_with_kafka_python())) > 0.8 * len(everything)


def tame(message):
    """The same message with error codes that Kafka has and times that a calendar has."""
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0  # with an error kafka-python reads version 0, as a client should
    for field in layout_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and not isinstance(message, ApiVersionsResponse):
            setattr(message, field.name, abs(value) % 3)
        elif field.name in ("retention_time_ms", "transaction_start_time_ms"):
            setattr(message, field.name, value % 2**40)
        elif field.name in ("log_append_time_ms", "timestamp"):
            setattr(message, field.name, -1 if value < 0 else value % 2**40)
        elif not isinstance(field.kind, Kind) and value is not None:
            for part in value if field.is_array else [value]:
                tame(part)
    return message


def check_same(ours, theirs, version, names):
    """`names` are theirs when they differ from ours; the order is the same."""
    carried = [field for field in layout_of(type(ours)).fields if version in field.versions]
    names = names or [field.name if field.name in theirs.fields else AS_BITS[field.name] for field in carried]
    assert len(names) == len(carried), (names, carried)
    for field, name in zip(carried, names, strict=True):
        mine, other = getattr(ours, field.name), getattr(theirs, name)
        where = f"{type(ours).__name__}.{field.name}"
        if isinstance(field.kind, Kind):
            assert plain(mine, field) == plain(other, field), where
        elif mine is None:
            is_default = field.tag is not None and other is not None
            if is_default:
                check_nested(field.kind(), other, version)
            else:
                assert other is None, where
        elif field.is_array:
            assert len(mine) == len(other), where
            for one, two in zip(mine, other, strict=True):
                check_nested(one, two, version)
        else:
            check_nested(mine, other, version)


def check_nested(ours, theirs, version):
    names = [field.name for field in dataclasses.fields(theirs)] if dataclasses.is_dataclass(theirs) else None
    check_same(ours, theirs, version, names)


def plain(value, field):
    """A value of any of the three libraries as ours would be."""
    if isinstance(value, list | tuple):
        return [plain(one, field) for one in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if field.kind is Kind.UUID and value is None:
        return bytes(16)
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if field.name in ("log_append_time_ms", "timestamp") and value is None:
        return -1
    if field.name in AS_BITS and not isinstance(value, int):
        unsigned = sum(1 << bit for bit in ({31} if value is None else value))
        return unsigned - 2**32 if unsigned >= 2**31 else unsigned
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, memoryview):
        return bytes(value)
    return value
