"""The client's side of a connection without the socket: requests in, bytes out; bytes in, responses out.

    machine = Connection("my-client")
    sock.send(machine.handshake())                       # ask which versions the broker accepts
    machine.receive(sock.recv(65536))                    # remembers the answer; is_ready from now on
    sock.send(machine.send(metadata.API, MetadataRequest()))
    for answer in machine.receive(sock.recv(65536)): ...

Rules:
- a broker answers in the order of the requests; an answer with another correlation id ends the conversation;
- a version is the highest that both sides have; when there is none the request is refused before it is sent;
- a broker that does not know our version of ApiVersions answers UNSUPPORTED_VERSION in version 0 and lists what it
  accepts (KIP-511): `is_ready` stays false, and the next `handshake` asks with a version that it knows;
- a request that gets no answer (Produce with acks 0) is sent with `expects_answer=False`.

What it does not do: wait, time out, retry. `net` and `client` do.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from penstock import __version__
from penstock.errors import ErrorCode, KafkaError, MalformedError
from penstock.types import Bytes
from penstock.wire.api import Api, api_versions
from penstock.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.compile import RESPONSE_OBJECT_BUDGET, codec
from penstock.wire.frame import FrameReader, encode_request_parts
from penstock.wire.header import read_response_header, response_has_tags
from penstock.wire.schema import Struct, Versions

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""The largest response that is taken in; more than any broker sends with its default settings."""

MAX_IN_FLIGHT = 1024
"""Requests without an answer; a caller that has more does not read its answers."""

_LAST_CORRELATION_ID = 2**31 - 1

_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
"""How the body of an ApiVersions response begins when it is in version 0 whatever was asked for."""


class Answer(NamedTuple):
    """A response and the request that it belongs to."""

    correlation_id: int
    api: Api
    version: int
    message: Struct


class _InFlight(NamedTuple):
    correlation_id: int
    api: Api
    version: int


class Connection:
    __slots__ = ("_client_id", "_frames", "_in_flight", "_next_id", "accepted", "is_ready")

    def __init__(self, client_id: str | None, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self._client_id = client_id
        self._frames = FrameReader(max_response_bytes)
        self._in_flight: deque[_InFlight] = deque()
        self._next_id = 0
        self.accepted: dict[int, Versions] = {}
        """API key -> the versions that the broker said it accepts."""
        self.is_ready = False
        """Whether the broker has said which versions it accepts."""

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def handshake(self) -> bytearray:
        """An ApiVersions request, in the newest version that the broker is not known to refuse."""
        api = api_versions.API
        version = self.version_of(api) if api.key in self.accepted else api.versions.high
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        return self.send(api, request, version)

    def version_of(self, api: Api) -> int:
        """The highest version that both sides have, or KafkaError(UNSUPPORTED_VERSION)."""
        ours, theirs = api.versions, self.accepted.get(api.key)
        if theirs is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not serve {api.name}")
        version = min(ours.high, theirs.high)
        if version < max(ours.low, theirs.low):
            ranges = f"the broker accepts {theirs.low} to {theirs.high}, we have {ours.low} to {ours.high}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"no version of {api.name} in common: {ranges}")
        return version

    def send(self, api: Api, request: Struct, version: int | None = None, *, expects_answer: bool = True) -> bytearray:
        """The bytes of a request, in the best common version unless one is named."""
        (frame,) = self.send_parts(api, request, version, expects_answer=expects_answer)
        assert isinstance(frame, bytearray)
        return frame

    def send_parts(
        self, api: Api, request: Struct, version: int | None = None, *, expects_answer: bool = True
    ) -> list[Bytes]:
        """The same in pieces: records that are `InPlace` are not copied."""
        assert len(self._in_flight) < MAX_IN_FLIGHT, "answers are read before more is asked"
        if version is None:
            version = self.version_of(api)
        correlation_id = self._next_id
        parts = encode_request_parts(api, version, correlation_id, self._client_id, request)
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        if expects_answer:
            self._in_flight.append(_InFlight(correlation_id, api, version))
        return parts

    def receive(self, data: Bytes) -> list[Answer]:
        """The answers that `data` completes. Records in them are views of it."""
        return [self._decode(frame) for frame in self._frames.feed(data)]

    @property
    def partial_size(self) -> int:
        """How many bytes the answer that has begun to come will have; 0 when that is not known yet."""
        return self._frames.partial_size

    def take_partial(self) -> bytearray:
        """What came of it, for who completes it and gives all of it to `receive`: one copy less of a large answer."""
        return self._frames.take_partial()

    def _decode(self, frame: memoryview) -> Answer:
        if not self._in_flight:
            raise MalformedError("the broker sent a response that nobody asked for")
        expected_id, api, version = self._in_flight.popleft()
        is_flexible = codec(api.response, version).is_flexible
        correlation_id, body = read_response_header(frame, 0, response_has_tags(api.key, is_flexible))
        if correlation_id != expected_id:
            raise MalformedError(f"the broker answered request {correlation_id}, the next is {expected_id}")
        if api is api_versions.API and frame[body : body + 2] == _UNSUPPORTED:
            version = 0
        message, _ = codec(api.response, version).decode(frame, body, RESPONSE_OBJECT_BUDGET)
        if isinstance(message, ApiVersionsResponse):
            self._learn(message)
        return Answer(correlation_id, api, version, message)

    def _learn(self, response: ApiVersionsResponse) -> None:
        key = api_versions.API.key
        listed = {entry.api_key: Versions(entry.min_version, entry.max_version) for entry in response.api_keys}
        if response.error_code == ErrorCode.NONE:
            self.accepted = listed
            self.is_ready = True
        elif response.error_code == ErrorCode.UNSUPPORTED_VERSION and key not in self.accepted:
            self.accepted = {key: listed.get(key, Versions(0, 0))}
        else:
            raise MalformedError(f"the broker answers ApiVersions with error {response.error_code}")
