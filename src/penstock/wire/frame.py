"""Frames: a message with its header behind a four-byte length, as it travels on a connection.

    size int32, then `size` bytes: a header (see `header`) and a message (see `compile`)

Rules:
- a size is between 1 and the receiver's limit; anything else is refused before a byte of it is kept;
- a response may hold slices of files: they are not in the returned bytes, but the size counts them, and `splices` says
  where they belong: (position in the bytes, slice), in ascending order;
- bytes after the end of a message are ignored, as Kafka does (librdkafka sends one too many with some requests).

The broker cuts requests out of its own buffers (`net`) with `read_size`; clients and tests use `FrameReader`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from penstock.errors import MalformedError
from penstock.types import Bytes
from penstock.wire.api import Api
from penstock.wire.compile import codec
from penstock.wire.header import append_request_header, response_has_tags
from penstock.wire.schema import Struct

SIZE_BYTES = 4
"""The length before every frame."""

_SIZE = struct.Struct(">i")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")

Splices = list[tuple[int, Any]]
"""(position in the encoded bytes, slice of a file that goes there)."""

Encode = Callable[[Any, bytearray, Splices], None]
"""An encoder as `codec` has it."""


def read_size(buf: Bytes, pos: int, max_bytes: int) -> int:
    """The size of the frame whose length stands at `pos`; the four bytes must be there."""
    size: int = _SIZE.unpack_from(buf, pos)[0]
    if not 0 < size <= max_bytes:
        raise MalformedError(f"a frame declares {size} bytes; it may have 1 to {max_bytes}{_guess(size)}")
    return size


def _guess(size: int) -> str:
    """What the peer may be speaking instead; its first four bytes were taken for a length."""
    start = size.to_bytes(4, "big", signed=True)
    if start[:2] == b"\x16\x03":
        return "; this looks like TLS, which is not spoken here"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        return "; this looks like HTTP"
    return ""


def encode_response(api: Api, version: int, correlation_id: int, message: Struct) -> tuple[bytearray, Splices]:
    """A whole response frame, and the slices of files that belong into it."""
    compiled = codec(api.response, version)
    has_tags = response_has_tags(api.key, compiled.is_flexible)
    return response_frame(compiled.encode, has_tags, correlation_id, message)


def response_frame(
    encode: Encode, header_has_tags: bool, correlation_id: int, message: Struct
) -> tuple[bytearray, Splices]:
    """The same for who has looked up the codec already, as the broker has for every request."""
    out = bytearray(_SIZE_AND_CORRELATION_ID.pack(0, correlation_id))
    if header_has_tags:
        out.append(0)
    splices: Splices = []
    encode(message, out, splices)
    size = len(out) - SIZE_BYTES
    for _, piece in splices:
        size += piece.size
    _SIZE.pack_into(out, 0, size)
    return out, splices


class InPlace:
    """Records of a request that are sent from where they are: they are not copied into the frame."""

    __slots__ = ("data",)

    def __init__(self, data: Bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        return len(self.data)


def encode_request(api: Api, version: int, correlation_id: int, client_id: str | None, message: Struct) -> bytearray:
    """A whole request frame in one piece; its records are bytes."""
    (frame,) = encode_request_parts(api, version, correlation_id, client_id, message)
    assert isinstance(frame, bytearray)
    return frame


def encode_request_parts(
    api: Api, version: int, correlation_id: int, client_id: str | None, message: Struct
) -> list[Bytes]:
    """The pieces of a request frame, in order; records may be `InPlace`, and are then pieces of their own."""
    compiled = codec(api.request, version)
    out = bytearray(SIZE_BYTES)
    append_request_header(out, api.key, version, correlation_id, client_id, compiled.is_flexible)
    splices: Splices = []
    compiled.encode(message, out, splices)
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES + sum(piece.size for _, piece in splices))
    if not splices:
        return [out]
    view = memoryview(out)
    parts: list[Bytes] = []
    start = 0
    for position, piece in splices:
        assert isinstance(piece, InPlace), "a client sends no slices of files"
        parts += [view[start:position], piece.data]
        start = position
    parts.append(view[start:])
    return parts


class FrameReader:
    """Bytes in, frames out. What it keeps is the unfinished rest of one frame, never more than its limit."""

    __slots__ = ("_max_bytes", "_partial")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partial = bytearray()

    @property
    def has_partial(self) -> bool:
        """Whether a frame has begun and not ended; when the peer closes now, it was cut off."""
        return bool(self._partial)

    @property
    def partial_size(self) -> int:
        """How many bytes the unfinished frame will have, its length included; 0 when that is not known yet."""
        if len(self._partial) < SIZE_BYTES:
            return 0
        return SIZE_BYTES + read_size(self._partial, 0, self._max_bytes)

    def take_partial(self) -> bytearray:
        """What came of the unfinished frame, for who completes it in memory of their own and feeds all of it."""
        partial, self._partial = self._partial, bytearray()
        return partial

    def feed(self, data: Bytes) -> list[memoryview]:
        """The frames, without their size, that `data` completes. A frame that is whole in `data` is a view of it."""
        view = memoryview(data)
        frames: list[memoryview] = []
        position = self._complete(view, frames) if self._partial else 0
        while len(view) - position >= SIZE_BYTES:
            stop = position + SIZE_BYTES + read_size(view, position, self._max_bytes)
            if stop > len(view):
                break
            frames.append(view[position + SIZE_BYTES : stop])
            position = stop
        self._partial += view[position:]
        return frames

    def _complete(self, view: memoryview, frames: list[memoryview]) -> int:
        """Add to the frame that began earlier; how many bytes of `view` it took."""
        partial = self._partial
        taken = max(0, SIZE_BYTES - len(partial))
        partial += view[:taken]
        if len(partial) < SIZE_BYTES:
            return len(view)
        missing = SIZE_BYTES + read_size(partial, 0, self._max_bytes) - len(partial)
        partial += view[taken : taken + missing]
        if len(view) < taken + missing:
            return len(view)
        frames.append(memoryview(partial)[SIZE_BYTES:])
        self._partial = bytearray()
        return taken + missing
