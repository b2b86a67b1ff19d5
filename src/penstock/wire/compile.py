"""From a declaration to an encoder and a decoder for one version, written out as Python source and compiled once.

`schema` says what a message is, `decoder` and `encoder` write the source, this module keeps what they made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.types import Bytes
from penstock.wire.decoder import Decoder
from penstock.wire.encoder import Encoder
from penstock.wire.schema import Struct, layout_of

REQUEST_OBJECT_BUDGET = 10_000
"""How many array elements and unknown tags one request may hold unless its handler says otherwise."""

RESPONSE_OBJECT_BUDGET = 10_000_000
"""The same for a response: the broker that sent it is trusted more, but not without end."""


class Codec:
    """One version of one message. Encoder and decoder are compiled when first asked for: a side needs one of them."""

    __slots__ = ("_cls", "_version", "decode", "encode", "is_flexible")

    encode: Callable[[Any, bytearray, list[tuple[int, Any]]], None]
    """(message, out, splices): appends to `out`; a `records` field that is not bytes is noted in `splices` as
    (position in `out`, value) and only its length is written."""
    decode: Callable[[Bytes, int, int], tuple[Any, int]]
    """(buffer that ends where the message does, position, object budget) -> (message, position after it)."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        layout = layout_of(cls)
        if version not in layout.versions:
            raise ValueError(f"{cls.__name__} has no version {version}")
        self._cls = cls
        self._version = version
        self.is_flexible = version in layout.flexible

    def __getattr__(self, name: str) -> Any:
        """Called only while the slot is empty."""
        if name == "encode":
            self.encode = Encoder(self._cls, self._version, self.is_flexible).build()
        elif name == "decode":
            self.decode = Decoder(self._cls, self._version, self.is_flexible).build()
        return object.__getattribute__(self, name)


_codecs: dict[tuple[type[Struct], int], Codec] = {}


def codec(cls: type[Struct], version: int) -> Codec:
    """The codec of a message's version; always the same one."""
    known = _codecs.get((cls, version))
    if known is None:
        known = _codecs[cls, version] = Codec(cls, version)
    return known


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
