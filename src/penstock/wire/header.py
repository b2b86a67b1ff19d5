"""What stands before every request and every response.

    request header   api_key int16, api_version int16, correlation_id int32, client_id nullable string [, tags]
    response header  correlation_id int32 [, tags]

The tags are there when the version of the API is flexible: header versions 2 and 1 in Kafka's count, 1 and 0 without.
The client id is a plain string in both, so that any broker can read it. The response to ApiVersions never has tags: the
client does not know yet what the broker speaks (KIP-511).

Tags of a header carry nothing that Penstock knows; they are checked and skipped, not kept. A response's header is
written together with its size (see `frame`).
"""

from __future__ import annotations

import struct

from penstock.errors import MalformedError
from penstock.types import Bytes
from penstock.wire.primitives import read_uvarint

API_VERSIONS_KEY = 18

_START = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""

_CORRELATION_ID = struct.Struct(">i")


def read_api(buf: Bytes, pos: int = 0) -> tuple[int, int]:
    """(API key, version) of the request whose header starts at `pos`: what decides how the rest is read."""
    if len(buf) - pos < _START.size:
        raise MalformedError(f"a request of {len(buf) - pos} bytes is shorter than its header")
    key, version, _, _ = _START.unpack_from(buf, pos)
    return key, version


def read_request_header(buf: Bytes, pos: int, is_flexible: bool) -> tuple[int, str | None, int]:
    """(correlation id, client id, position of the body) of the request whose header starts at `pos`."""
    try:
        _, _, correlation_id, length = _START.unpack_from(buf, pos)
        pos += _START.size
        client_id = None
        if length >= 0:
            stop = pos + length
            if stop > len(buf):
                raise MalformedError("the client id runs past the end of the request")
            client_id = str(buf[pos:stop], "utf-8")
            pos = stop
        if is_flexible:
            if buf[pos]:
                return correlation_id, client_id, _skip_tags(buf, pos)
            pos += 1
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MalformedError(f"the request header is malformed: {error}") from None
    return correlation_id, client_id, pos


def append_request_header(
    out: bytearray, api_key: int, api_version: int, correlation_id: int, client_id: str | None, is_flexible: bool
) -> None:
    if client_id is None:
        out += _START.pack(api_key, api_version, correlation_id, -1)
    else:
        encoded = client_id.encode()
        out += _START.pack(api_key, api_version, correlation_id, len(encoded))
        out += encoded
    if is_flexible:
        out.append(0)


def response_has_tags(api_key: int, is_flexible: bool) -> bool:
    """Whether the response header ends with tags."""
    return is_flexible and api_key != API_VERSIONS_KEY


def read_response_header(buf: Bytes, pos: int, has_tags: bool) -> tuple[int, int]:
    """(correlation id, position of the body)."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buf, pos)
        pos += _CORRELATION_ID.size
        if has_tags:
            pos = _skip_tags(buf, pos)
    except (IndexError, struct.error) as error:
        raise MalformedError(f"the response header is malformed: {error}") from None
    return correlation_id, pos


def _skip_tags(buf: Bytes, pos: int) -> int:
    """The position after a tag section; each tag takes at least two bytes, so the loop ends with the buffer."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > len(buf):
            raise MalformedError("the tags of the header run past its end")
    return pos
