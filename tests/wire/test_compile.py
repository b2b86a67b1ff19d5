"""The compiled codec: exact bytes, tags, nulls, and the bounds that a hostile message meets."""

from __future__ import annotations

import struct as packing
import tracemalloc

import pytest

from penstock.errors import MalformedError
from penstock.wire.compile import codec, decode, encode
from penstock.wire.decoder import least_struct_size
from penstock.wire.schema import (
    Kind,
    Struct,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)


@struct
class Inner(Struct):
    id: int = int32()
    label: str | None = string("1+", nullable="1+", default=None, tag=0)


@message("0-1", flexible="1+")
class Everything(Struct):
    flag: bool = boolean()
    tiny: int = int8()
    small: int = int16()
    medium: int = int32()
    large: int = int64()
    port: int = uint16()
    count: int = uint32()
    ratio: float = float64()
    topic_id: bytes = uuid()
    name: str = string()
    nick: str | None = string(nullable="0+")
    blob: bytes = binary()
    batch: bytes | None = records(nullable="0+")
    numbers: list[int] = array(Kind.INT32)
    flags: list[bool] = array(Kind.BOOL)
    ids: list[bytes] = array(Kind.UUID)
    names: list[str] = array(Kind.STRING)
    blobs: list[bytes] = array(Kind.BYTES)
    parts: list[Inner] | None = array(Inner, nullable="0+")
    part: Inner = nested(Inner)
    maybe: Inner | None = nested(Inner, nullable="0+")
    since: int = int32("1+", default=-1)
    tagged_part: Inner | None = nested(Inner, "1+", tag=0)
    tagged_list: list[Inner] = array(Inner, "1+", tag=1)
    tagged_number: int = int64("1+", tag=3, default=-7)
    tagged_id: bytes = uuid("1+", tag=4)


@message("0-1", flexible="1+")
class Topics(Struct):
    names: list[str] = array(Kind.STRING)
    parts: list[Inner] = array(Inner)


@message("0", flexible="0+")
class Tagged(Struct):
    hint: int = int16(tag=2, default=5)


FULL = Everything(
    flag=True, tiny=-1, small=-2, medium=-3, large=-4, port=65_535, count=2**32 - 1, ratio=0.5,
    topic_id=bytes(range(16)), name="Füllmaß", nick=None, blob=b"\x00\x01", batch=b"batch", numbers=[1, -1],
    flags=[True, False],
    ids=[b"\x01" * 16], names=["", "b"], blobs=[b"", b"c"], parts=[Inner(id=7)], part=Inner(id=8), maybe=Inner(id=9),
)  # fmt: skip


def test_a_plain_message_has_kafkas_bytes():
    part = packing.Struct(">i").pack
    assert encode(FULL, 0) == b"".join([
        packing.pack(">?bhiqHId", True, -1, -2, -3, -4, 65_535, 2**32 - 1, 0.5), bytes(range(16)),
        packing.pack(">h", 9), "Füllmaß".encode(), b"\xff\xff", part(2), b"\x00\x01", part(5), b"batch",
        part(2), part(1), part(-1), part(2), b"\x01\x00", part(1), b"\x01" * 16,
        part(2), b"\x00\x00", b"\x00\x01b", part(2), part(0), part(1), b"c",
        part(1), part(7), part(8), b"\x01", part(9),
    ])  # fmt: skip


def test_a_flexible_message_has_kafkas_bytes():
    message = Topics(names=["ab", "x" * 127], parts=[Inner(id=1), Inner(id=2, label="L"), Inner(id=3, label="")])
    assert encode(message, 1) == b"".join([
        b"\x03", b"\x03ab", b"\x80\x01" + b"x" * 127,
        b"\x04", b"\x00\x00\x00\x01\x00", b"\x00\x00\x00\x02\x01\x00\x02\x02L", b"\x00\x00\x00\x03\x01\x00\x01\x01",
        b"\x00",
    ])  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_every_kind_of_field_reads_back(version):
    message = FULL
    if version == 1:
        message = Everything(
            since=3, tagged_part=Inner(id=1, label="x"), tagged_list=[Inner(id=2), Inner(label="")], tagged_number=0,
            tagged_id=b"\x02" * 16, parts=None, maybe=None, part=Inner(unknown_tags={9: b"nine"}),
            unknown_tags={100: b"hundred", 2: b""},
        )  # fmt: skip
    data = encode(message, version)
    again, end = codec(Everything, version).decode(memoryview(data), 0, 100)
    assert again == message
    assert end == len(data)
    assert isinstance(again.batch, memoryview) == (version == 0)


def test_records_are_a_view_of_the_buffer():
    data = bytearray(encode(FULL, 0))
    again = decode(Everything, 0, memoryview(data))
    data[data.index(b"batch")] = ord("B")
    assert bytes(again.batch) == b"Batch"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [0, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151, 2_097_152])
def test_records_of_any_length_read_back(version, size):
    message = Everything(blob=bytes(size), batch=bytes(size))
    assert decode(Everything, version, encode(message, version)) == message


def test_tags_are_written_in_ascending_order_and_only_when_they_say_something():
    assert encode(Tagged(), 0) == b"\x00"
    assert encode(Tagged(hint=6, unknown_tags={7: b"7", 1: b"1"}), 0) == b"\x03\x01\x011\x02\x02\x00\x06\x07\x017"


def test_unknown_tags_survive():
    data = b"\x02\x00\x03abc\xff\x01\x00"
    message = decode(Tagged, 0, data)
    assert message.unknown_tags == {0: b"abc", 255: b""}
    assert encode(message, 0) == data


def test_no_tags_said_in_two_bytes_are_no_tags():
    assert decode(Topics, 1, b"\x01\x01\x80\x00").unknown_tags is None


def test_a_tag_must_have_the_size_that_it_says():
    with pytest.raises(MalformedError, match=r"Tagged\.hint"):
        decode(Tagged, 0, b"\x01\x02\x03\x00\x06\x00")
    with pytest.raises(MalformedError, match=r"Tagged\.hint"):
        decode(Tagged, 0, b"\x01\x02\x01\x00\x06")
    with pytest.raises(MalformedError, match="the tags of Tagged"):
        decode(Tagged, 0, b"\x01\x09\x05\x00\x06")


@pytest.mark.parametrize(("version", "null"), [(0, b"\xff\xff\xff\xff"), (1, b"\x00")])
def test_null_is_refused_where_it_is_not_allowed(version, null):
    with pytest.raises(MalformedError, match=r"Topics\.names must not be null"):
        decode(Topics, version, null + bytes(20))
    name = b"\xff\xff" if version == 0 else b"\x00"
    count = b"\x00\x00\x00\x01" if version == 0 else b"\x02"
    with pytest.raises(MalformedError, match=r"Topics\.names must not be null"):
        decode(Topics, version, count + name + bytes(20))
    for wrong in (Topics(names=None), Topics(names=[None]), Topics(parts=None)):
        with pytest.raises(ValueError, match="must not be null"):
            encode(wrong, version)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("count", [3, 1000, 2**31 - 1])
def test_a_count_beyond_what_the_bytes_can_hold_is_refused(version, count):
    length = packing.pack(">i", count) if version == 0 else uvarint(count + 1)
    with pytest.raises(MalformedError, match=f"Topics.names declares {count}"):
        decode(Topics, version, length + b"\x00\x00")


def test_a_count_of_tags_beyond_what_the_bytes_can_hold_is_refused():
    with pytest.raises(MalformedError, match="the tags of Tagged declares"):
        decode(Tagged, 0, uvarint(2**31) + bytes(10))


@pytest.mark.parametrize("version", [0, 1])
def test_objects_come_out_of_one_budget(version):
    message = Topics(names=["a"] * 60, parts=[Inner()] * 40)
    data = encode(message, version)
    assert codec(Topics, version).decode(data, 0, 100)[0] == message
    with pytest.raises(MalformedError, match="too many objects"):
        codec(Topics, version).decode(data, 0, 99)


def test_tags_come_out_of_the_budget_too():
    data = encode(Tagged(unknown_tags=dict.fromkeys(range(10, 20), b"")), 0)
    codec(Tagged, 0).decode(data, 0, 10)
    with pytest.raises(MalformedError, match="too many objects"):
        codec(Tagged, 0).decode(data, 0, 9)
    inner = encode(Topics(parts=[Inner(unknown_tags=dict.fromkeys(range(10, 20), b""))]), 1)
    with pytest.raises(MalformedError, match="too many objects"):
        codec(Topics, 1).decode(inner, 0, 10)


def test_the_budget_stops_a_message_before_it_takes_memory():
    data = uvarint(2_000_001) + bytes(b"\x01" * 2_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError, match="too many objects"):
            codec(Topics, 1).decode(data, 0, 10_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("length", "complaint"),
    [
        (b"\xff\xff\xff\xff\x1f", "larger than 32 bits"),
        (b"\x80\x80\x80\x80\x80\x01", "more than five bytes"),
        (b"\xff\xff\xff\xff\xff\xff", "more than five bytes"),
        (b"\x80", "index out of range"),
    ],
)
def test_a_varint_is_bounded(length, complaint):
    with pytest.raises(MalformedError, match=complaint):
        decode(Topics, 1, length)


def test_a_string_is_held_to_kafkas_limit():
    longest = Topics(names=["x" * 32_767])
    assert decode(Topics, 1, encode(longest, 1)) == longest
    with pytest.raises(MalformedError, match="32768"):
        decode(Topics, 1, encode(Topics(names=["x" * 32_768]), 1))


@pytest.mark.parametrize("version", [0, 1])
def test_text_that_is_not_utf_8_is_malformed(version):
    data = encode(Topics(names=["abc"]), version)
    data[data.index(b"b")] = 0xFF
    with pytest.raises(MalformedError, match="utf-8"):
        decode(Topics, version, data)


@pytest.mark.parametrize("version", [0, 1])
def test_a_message_cut_anywhere_is_malformed(version):
    data = encode(FULL, version)
    for size in range(len(data)):
        for buffer in (data[:size], memoryview(data)[:size]):
            with pytest.raises(MalformedError):
                decode(Everything, version, buffer)


def test_the_least_size_of_a_struct_counts_what_is_always_there():
    assert least_struct_size(Inner, 0, False) == 4
    assert least_struct_size(Inner, 1, True) == 5
    assert least_struct_size(Topics, 0, False) == 8
    assert least_struct_size(Topics, 1, True) == 3


def test_a_version_that_does_not_exist_has_no_codec():
    with pytest.raises(ValueError, match="Everything has no version 2"):
        codec(Everything, 2)


def test_a_codec_is_compiled_once():
    assert codec(Topics, 0) is codec(Topics, 0)


def uvarint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
