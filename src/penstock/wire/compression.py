"""The four codecs of record batches: gzip, snappy, lz4 and zstd, each bounded before it writes.

Bytes, as Kafka's Java clients write and read them:

- gzip: one gzip member; several in a row are read too.
- snappy: written in the framing of the Java library "xerial" (a 16-byte header, then blocks of up to 32 KiB, each
  behind its int32 size); read in that framing or as one raw block, which is what librdkafka sends.
- lz4: the LZ4 frame format with independent blocks of 64 KiB; Kafka's reader refuses linked blocks.
- zstd: one zstd frame; several in a row are read too.

Rules: whoever decompresses names the most it is ready to hold. The output buffer never grows past it, and the decoder
writes into that buffer only, so a bomb (zstd: 8 KB for 256 MB) costs the limit and no more. Everything that is not the
codec's own format, is cut, or wants more room is CORRUPT_MESSAGE. Nothing here is quick: call it in a thread.

One package, cramjam, does all four (docs/adr/0003-compression.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

from penstock.types import Bytes
from penstock.wire.records import Codec, corrupt

DEFAULT_GZIP_LEVEL = 6
DEFAULT_LZ4_LEVEL = 1
"""The fast compressor. Kafka's default for `compression.lz4.level`, 9, stands for its fast one too."""
DEFAULT_ZSTD_LEVEL = 3

FIRST_GUESS_RATIO = 4
FIRST_GUESS_BYTES = 16 * 1024
GROWTH = 4
"""Output is tried in a buffer of 4 times the input, then 4 times that, up to the limit: at worst a third more work."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_SIZE = 32 * 1024
MAX_SNAPPY_RATIO = 64
"""A snappy copy gives at most 64 bytes for two or more; a declared length above this ratio is a lie."""

BLOCK_SIZE = struct.Struct(">i")


def compress(codec: Codec, data: Bytes, level: int | None = None) -> Bytes:
    """`data` in the codec's format; `level` None is Kafka's default, and snappy has none."""
    if codec is Codec.NONE:
        return data
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, DEFAULT_GZIP_LEVEL if level is None or level < 0 else level))
    if codec is Codec.LZ4:
        return _compress_lz4(data, DEFAULT_LZ4_LEVEL if level is None else level)
    return memoryview(cramjam.zstd.compress(data, DEFAULT_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: Bytes, limit: int) -> Bytes:
    """What `data` holds, of at most `limit` bytes; CORRUPT_MESSAGE when it is more, or not of this codec."""
    if codec is Codec.NONE:
        if len(data) > limit:
            raise corrupt(f"Records of {len(data)} bytes are more than the limit of {limit}.")
        return data
    if codec is Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    return _decompress_growing(_DECODERS[codec], codec, data, limit)


DecodeInto = Callable[[Bytes, bytearray], int]

_DECODERS: dict[Codec, DecodeInto] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _decompress_growing(decode_into: DecodeInto, codec: Codec, data: Bytes, limit: int) -> bytearray:
    """The decoder does not tell a full buffer from other failures, so each failure is tried again with more room."""
    size = min(limit, max(FIRST_GUESS_BYTES, FIRST_GUESS_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = decode_into(data, out)
        except cramjam.DecompressionError as error:
            if size >= limit:
                raise corrupt(f"Records are not {codec.name.lower()} of at most {limit} bytes: {error}.") from None
            del out  # before the next one is made: never two at once
            size = min(limit, GROWTH * size)
            continue
        del out[written:]
        return out


def _compress_lz4(data: Bytes, level: int) -> memoryview:
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # of cramjam's calls this one alone takes bytes only, and it alone unlinks blocks
    return memoryview(compressor.finish())


def _compress_xerial(data: Bytes) -> bytearray:
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE]))
        out += BLOCK_SIZE.pack(len(block))
        out += block
    return out


def _decompress_snappy(data: memoryview, limit: int) -> bytearray:
    """All declared lengths are added up and held against the limit before the first byte is decompressed."""
    blocks = _xerial_blocks(data) if data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC else [data]
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit:
        raise corrupt(f"Records of {sum(sizes)} bytes are more than the limit of {limit}.")
    out = bytearray(sum(sizes))
    view = memoryview(out)
    for block, size in zip(blocks, sizes, strict=True):
        try:
            cramjam.snappy.decompress_raw_into(block, view[:size])
        except cramjam.DecompressionError as error:
            raise corrupt(f"Records are not snappy: {error}.") from None
        view = view[size:]
    return out


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The raw blocks behind the header; its two version numbers are not looked at, some clients swap their bytes."""
    blocks = []
    pos = len(XERIAL_HEADER)
    while pos < len(data):
        if len(data) - pos < BLOCK_SIZE.size:
            raise corrupt("A snappy stream ends inside a block size.")
        (size,) = BLOCK_SIZE.unpack_from(data, pos)
        pos += BLOCK_SIZE.size
        if not 0 < size <= len(data) - pos:
            raise corrupt(f"A snappy block of {size} bytes does not fit the {len(data) - pos} that are left.")
        blocks.append(data[pos : pos + size])
        pos += size
    return blocks


def _snappy_size(block: memoryview) -> int:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise corrupt(f"Records are not snappy: {error}.") from None
    if size > MAX_SNAPPY_RATIO * len(block):
        raise corrupt(f"A snappy block of {len(block)} bytes cannot hold {size}.")
    return size
