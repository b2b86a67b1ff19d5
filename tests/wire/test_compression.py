"""Each codec: round trips, other people's bytes, and input that must be refused in little memory."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc

import cramjam
import kafka.codec
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ErrorCode, KafkaError
from penstock.wire.compression import XERIAL_HEADER, compress, decompress
from penstock.wire.records import Codec

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 16 << 20


def text(size: int) -> bytes:
    """Half compressible, the same each time."""
    chance = random.Random(7)
    line = b'{"user":%d,"country":"Norway","device":"phone","id":"%s"}'
    return b"".join(line % (i % 97, chance.randbytes(4).hex().encode()) for i in range(size // 60))


def read_or_refused(codec: Codec, data: bytes | bytearray, limit: int) -> None:
    """Damage may go unseen where the codec has no checksum; another error or too much output must not happen."""
    try:
        assert len(decompress(codec, data, limit)) <= limit
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE  # noqa: PT017 either outcome is right


def refused(codec: Codec, data: bytes, limit: int = LIMIT) -> bool:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, limit)
    return caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=2_000))
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), LIMIT) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [32 * 1024, 70_000, 1 << 20])
def test_large_data_of_many_blocks_comes_out_and_is_smaller_between(codec: Codec, size: int) -> None:
    data = text(size)
    packed = compress(codec, memoryview(data))
    assert len(packed) < len(data) * 0.6
    assert decompress(codec, memoryview(packed), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-5, 1, 19))]
)
def test_every_level_that_kafka_allows_is_understood(codec: Codec, levels: tuple[int, ...]) -> None:
    data = text(100_000)
    for level in levels:
        assert decompress(codec, compress(codec, data, level), LIMIT) == data


def test_other_libraries_read_what_we_write() -> None:
    data = text(200_000)
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, data)) == data
    assert kafka.codec.gzip_decode(compress(Codec.GZIP, data)) == data
    assert kafka.codec.lz4_decode(compress(Codec.LZ4, data)) == data
    assert kafka.codec.zstd_decode(compress(Codec.ZSTD, data)) == data


def test_we_read_what_other_libraries_write() -> None:
    data = text(200_000)
    assert decompress(Codec.GZIP, kafka.codec.gzip_encode(data), LIMIT) == data
    assert decompress(Codec.LZ4, kafka.codec.lz4_encode(data), LIMIT) == data
    assert decompress(Codec.LZ4, lz4.frame.compress(data, block_linked=True, content_checksum=True), LIMIT) == data
    assert decompress(Codec.ZSTD, kafka.codec.zstd_encode(data), LIMIT) == data
    without_size = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    assert decompress(Codec.ZSTD, without_size, LIMIT) == data


def test_snappy_is_read_raw_and_in_the_java_framing_with_either_byte_order_of_its_version() -> None:
    data = text(100_000)
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, raw, LIMIT) == data
    for order in ("<ii", ">ii"):
        framed = b"\x82SNAPPY\x00" + struct.pack(order, 1, 1) + struct.pack(">i", len(raw)) + raw
        assert decompress(Codec.SNAPPY, framed, LIMIT) == data


def test_snappy_is_written_in_the_java_framing_with_blocks_of_32_kib() -> None:
    data = text(100_000)
    packed = bytes(compress(Codec.SNAPPY, data))
    assert packed[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    (size,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == data[: 32 * 1024]


def test_lz4_blocks_do_not_depend_on_each_other_because_kafka_refuses_those() -> None:
    assert lz4.frame.get_frame_info(bytes(compress(Codec.LZ4, text(200_000))))["block_linked"] is False


def test_members_in_a_row_are_read_as_one() -> None:
    for codec in (Codec.GZIP, Codec.ZSTD, Codec.LZ4):
        twice = bytes(compress(codec, b"one ")) + bytes(compress(codec, b"two"))
        assert decompress(codec, twice, LIMIT) == b"one two"


@pytest.mark.parametrize("codec", list(Codec))
def test_one_byte_over_the_limit_is_refused_and_the_limit_itself_is_not(codec: Codec) -> None:
    data = text(50_000)
    packed = bytes(compress(codec, data))
    assert decompress(codec, packed, len(data)) == data
    assert refused(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_than_the_limit(codec: Codec) -> None:
    zeros = bytes(64 << 20)
    bomb = bytes(compress(codec, zeros))
    del zeros
    tracemalloc.start()
    try:
        assert refused(codec, bomb, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (1 << 20) + (64 << 10)


def test_a_zstd_frame_with_a_window_of_2_gib_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=31, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert refused(Codec.ZSTD, stream.compress(bytes(1000)) + stream.flush())


def test_a_snappy_block_that_lies_about_its_length_is_refused_before_memory_is_taken() -> None:
    lie = b"\xff\xff\xff\x7f" + b"\x00" * 10
    assert refused(Codec.SNAPPY, lie)
    assert refused(Codec.SNAPPY, lie, 1 << 40)
    assert refused(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", len(lie)) + lie)


@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1, -(2**31)])
def test_a_snappy_stream_with_a_wrong_block_size_is_refused(size: int) -> None:
    assert refused(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"\x01\x00")
    assert refused(Codec.SNAPPY, XERIAL_HEADER + b"\x00\x00")


@pytest.mark.parametrize("codec", CODECS)
def test_cut_and_damaged_data_is_refused_and_never_another_error(codec: Codec) -> None:
    data = text(3_000)
    packed = bytes(compress(codec, data))
    for size in range(0, len(packed), 7):
        read_or_refused(codec, packed[:size], 1 << 16)
    chance = random.Random(3)
    for _ in range(500):
        damaged = bytearray(packed)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        read_or_refused(codec, damaged, 1 << 16)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=300))
def test_noise_is_refused_or_read_and_never_another_error(codec: Codec, data: bytes) -> None:
    read_or_refused(codec, data, 4096)
