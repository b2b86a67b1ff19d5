"""Which partition a message goes to when the caller names none: by its key, as other clients choose.

A partitioner is a function (key, number of partitions) -> partition, or None when it does not care; then the producer
stays with one partition until a batch is full (KIP-480), which makes fewer and larger batches.

    murmur2_random     Java's default, and librdkafka's partitioner of the same name; ours too
    consistent_random  librdkafka's default, so that of confluent-kafka: CRC-32, and empty keys count as none
    round_robin()      one after the other, whatever the key

Messages of one key stay together and in order only while all who write them choose alike.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable

Partitioner = Callable[[bytes | None, int], int | None]

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def murmur2_random(key: bytes | None, partition_count: int) -> int | None:
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count


def consistent_random(key: bytes | None, partition_count: int) -> int | None:
    return zlib.crc32(key) % partition_count if key else None


def round_robin() -> Partitioner:
    """A partitioner of its own for each producer: it counts."""
    counter = itertools.count()
    return lambda key, partition_count: next(counter) % partition_count


PARTITIONERS: dict[str, Callable[[], Partitioner]] = {
    "murmur2_random": lambda: murmur2_random,
    "consistent_random": lambda: consistent_random,
    "round_robin": round_robin,
}
"""By name, for the command line; each call gives one to a producer."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed of Kafka's Java client."""
    length = len(data)
    whole = length & ~3
    value = (_SEED ^ length) & _MASK
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
