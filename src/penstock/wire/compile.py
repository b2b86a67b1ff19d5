"""From a declaration to an encoder and a decoder for one version, written out as Python source and compiled once.

`schema` says what a message is, `decoder` and `encoder` write the source, this module keeps what they made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.types import Bytes
from penstock.wire.decoder import Decoder
from penstock.wire.encoder import Encoder
from penstock.wire.schema import Struct, layout_of

REQUEST_OBJECT_BUDGET = 10_000
"""How many array elements and unknown tags one request may hold unless its handler says otherwise."""

RESPONSE_OBJECT_BUDGET = 10_000_000
"""The same for a response: the broker that sent it is trusted more, but not without end."""


class Codec(NamedTuple):
    """One version of one message."""

    encode: Callable[[Any, bytearray, list[tuple[int, Any]]], None]
    """(message, out, splices): appends to `out`; a `records` field that is not bytes is noted in `splices` as
    (position in `out`, value) and only its length is written."""
    decode: Callable[[Bytes, int, int], tuple[Any, int]]
    """(buffer that ends where the message does, position, object budget) -> (message, position after it)."""
    is_flexible: bool


_codecs: dict[tuple[type[Struct], int], Codec] = {}


def codec(cls: type[Struct], version: int) -> Codec:
    """The codec of a message's version, compiled at first use."""
    known = _codecs.get((cls, version))
    if known is None:
        known = _codecs[cls, version] = _compile(cls, version)
    return known


def _compile(cls: type[Struct], version: int) -> Codec:
    layout = layout_of(cls)
    if version not in layout.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    is_flexible = version in layout.flexible
    return Codec(Encoder(cls, version, is_flexible).build(), Decoder(cls, version, is_flexible).build(), is_flexible)


def encode(message: Struct, version: int) -> bytearray:
    """A message as bytes, where no splices are expected."""
    out = bytearray()
    splices: list[tuple[int, Any]] = []
    codec(type(message), version).encode(message, out, splices)
    assert not splices, "a message with file slices is encoded by frame.encode_response"
    return out


def decode(cls: type[Struct], version: int, data: Bytes, budget: int = RESPONSE_OBJECT_BUDGET) -> Any:
    """A message from bytes; what follows it is ignored, as Kafka does."""
    return codec(cls, version).decode(data, 0, budget)[0]
