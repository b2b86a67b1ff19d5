"""From a request's bytes to its handler, and from the handler's answer to bytes.

One route per API and version, made at first use: the decoder, the handler, the encoder. What is not in
`handlers.MODULES` is neither advertised nor answered. As in Kafka: a version that is not supported, an unknown API or
bytes that do not decode end the connection; only ApiVersions answers any version (KIP-511).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.broker import handlers
from penstock.broker.context import Call, Context, Later
from penstock.broker.memory import Memory, memory_of
from penstock.broker.produce_memo import PRODUCE_KEY, Append, ProduceMemos, learnable_partitions
from penstock.broker.replicas.partition import Partition
from penstock.broker.transaction_memo import ADD_PARTITIONS_KEY, END_TXN_KEY
from penstock.broker.transactional_append import TransactionalAppend
from penstock.errors import KafkaError, MalformedError
from penstock.net.server_connection import CloseConnection, Pending, Reply, ServerConnection, Spliced
from penstock.wire import api as apis
from penstock.wire.api.produce import ProduceRequest, ProduceResponse
from penstock.wire.compile import codec
from penstock.wire.header import API_VERSIONS_KEY, read_request_header
from penstock.wire.schema import Struct, layout_of

log = logging.getLogger(__name__)

REPEATED_KEYS = frozenset((PRODUCE_KEY, ADD_PARTITIONS_KEY, END_TXN_KEY))

_START = struct.Struct(">hhi")
_LENGTH = struct.Struct(">i")
_RESPONSE_HEAD = struct.Struct(">ii")


class Route(NamedTuple):
    """How one version of one API is served."""

    api: apis.Api
    decode: Callable[[Any, int, int], tuple[Any, int]]
    encode: Callable[[Any, bytearray, list[tuple[int, Any]]], None]
    handle: Callable[[Context, Call, Any], Any]
    refuse: Callable[[Call, Any, KafkaError], Struct] | None
    is_async: bool
    is_flexible: bool
    response_has_tags: bool


class Dispatcher:
    """Serves the requests of all connections."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._routes: dict[tuple[int, int], Route] = {}
        self._budget = context.config.get_int("penstock.request.object.budget")
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, connection: ServerConnection, frame: memoryview) -> Reply | Pending:
        """Answer one request; MalformedError or CloseConnection end the connection."""
        if len(frame) < 8:
            raise MalformedError(f"a request of {len(frame)} bytes is shorter than its header")
        key, version, correlation_id = _START.unpack_from(frame)
        if key in REPEATED_KEYS and connection.memory is not None:
            answer = self._serve_known(connection.memory, frame, key, version, correlation_id)
            if answer is not None:
                self._context.metrics.requests[key] += 1
                return answer
        route = self._routes.get((key, version)) or self._make_route(key, version)
        _, client_id, position = read_request_header(frame, 0, route.is_flexible)
        call = Call(key, version, correlation_id, client_id, connection)
        context = self._context
        context.metrics.requests[key] += 1
        try:
            request, _ = route.decode(frame, position, self._budget)
        except MalformedError:
            context.metrics.malformed_requests += 1
            raise
        if route.is_async:
            return self._serve_async(route, call, request)
        try:
            response = route.handle(context, call, request)
        except KafkaError as error:
            response = _refusal(route, call, request, error)
        except CloseConnection:
            raise
        except Exception as error:
            raise self._unexpected(route.api, error) from error
        if response is None:
            return None
        if type(response) is Later:
            ready = self._take_ready(route, response)
            if ready is None:
                return self._serve_later(route, call, response)
            response = ready
        elif key == PRODUCE_KEY:
            self._maybe_learn(connection, frame, version, request, response)
        reply = _encode(route, correlation_id, response)
        if key == ADD_PARTITIONS_KEY and type(reply) is bytearray:
            memory_of(connection).transactions.learn_add(frame, version, request, response, reply)
        elif key == END_TXN_KEY and type(reply) is bytearray:
            memory_of(connection).transactions.learn_end(frame, position, version, request, response, reply)
        return reply

    def _serve_known(
        self, memory: Memory, frame: memoryview, key: int, version: int, correlation_id: int
    ) -> bytearray | None:
        """The answer to a request that its connection repeats; None for any other."""
        try:
            if key == PRODUCE_KEY:
                return memory.produced.serve(frame, version, correlation_id)
            if key == ADD_PARTITIONS_KEY:
                return memory.transactions.serve_add(self._context, frame, version, correlation_id)
            return memory.transactions.serve_end(self._context, frame, version, correlation_id)
        except MalformedError:
            raise
        except Exception as error:
            raise self._unexpected(apis.load(key), error) from error

    def _maybe_learn(
        self,
        connection: ServerConnection,
        frame: memoryview,
        version: int,
        request: ProduceRequest,
        response: ProduceResponse,
    ) -> None:
        """Remember a produce request that its connection will repeat."""
        memos = memory_of(connection).produced
        if memos.is_worth_it(request):
            partitions = learnable_partitions(self._context.replicas, version, request, response)
            appends = self._appends(memos, version, request, partitions) if partitions is not None else None
            if appends:
                memos.learn(frame, version, request, response, appends)

    def _appends(
        self, memos: ProduceMemos, version: int, request: ProduceRequest, partitions: list[Partition]
    ) -> list[Append]:
        """How the batches of a request like this are appended; nothing when that is not to be remembered."""
        if request.transactional_id is None:
            return [partition.append for partition in partitions]
        if len(partitions) > 1:
            return []
        return [TransactionalAppend(self._context, request.transactional_id, version, partitions[0], memos.waiting)]

    def _make_route(self, key: int, version: int) -> Route:
        if key not in handlers.MODULES:
            raise CloseConnection(f"API key {key} is not one that this broker serves")
        api = apis.load(key)
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise CloseConnection(f"{api.name} version {version} is not supported")
            return self._api_versions_fallback(api)
        handle = handlers.load(key)
        request = codec(api.request, version)
        route = Route(
            api,
            request.decode,
            codec(api.response, version).encode,
            handle,
            handlers.load_refusal(key),
            inspect.iscoroutinefunction(handle),
            request.is_flexible,
            request.is_flexible and key != API_VERSIONS_KEY,
        )
        self._routes[key, version] = route
        return route

    def _api_versions_fallback(self, api: apis.Api) -> Route:
        """Any other version of ApiVersions: the client is told, in version 0, what it may use instead."""
        handle = handlers.load(api.key)

        def decode(_buf: Any, position: int, _budget: int) -> tuple[Any, int]:
            return None, position

        encode = codec(api.response, 0).encode
        return Route(api, decode, encode, handle, None, False, False, False)

    def _take_ready(self, route: Route, later: Later) -> Struct | None:
        """The response, when it came while the handler was still at work, as most do that wait for nothing."""
        try:
            return later.take()
        except Exception as error:
            raise self._unexpected(route.api, error) from error

    def _serve_later(self, route: Route, call: Call, later: Later) -> Pending:
        pending = Pending(later.cancel)

        def answer(make: Callable[[], Struct]) -> None:
            try:
                reply = _encode(route, call.correlation_id, make())
            except Exception as error:
                call.connection.close(str(self._unexpected(route.api, error)))
            else:
                pending.finish(reply)

        later.attach(answer)
        return pending

    def _serve_async(self, route: Route, call: Call, request: Struct) -> Pending:
        pending = Pending()
        task = self._context.loop.create_task(self._answer(route, call, request, pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    async def _answer(self, route: Route, call: Call, request: Struct, pending: Pending) -> None:
        try:
            try:
                response = await route.handle(self._context, call, request)
            except KafkaError as error:
                response = _refusal(route, call, request, error)
            reply = _encode(route, call.correlation_id, response)
        except CloseConnection as error:
            call.connection.close(str(error))
        except Exception as error:
            call.connection.close(str(self._unexpected(route.api, error)))
        else:
            pending.finish(reply)

    def _unexpected(self, api: apis.Api, error: Exception) -> CloseConnection:
        """We are wrong: say so with everything we know, and end this connection only."""
        self._context.metrics.unexpected_errors += 1
        log.error("%s failed; this is a bug in Penstock", api.name, exc_info=error)
        return CloseConnection(f"{api.name} failed: {error}")

    async def preload(self) -> None:
        """Load every handler, a little at a time, while clients are served: none should wait for it, nor fail because
        the process is out of descriptors at that moment.
        """
        for key in handlers.MODULES:
            try:
                handlers.load(key)
            except OSError as error:  # it is tried again when a client asks for it
                log.warning("%s could not be loaded yet: %s", handlers.MODULES[key], error)
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """End what is still being answered."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _encode(route: Route, correlation_id: int, response: Struct) -> Reply:
    """The response with its length and header in front."""
    out = bytearray(_RESPONSE_HEAD.pack(0, correlation_id))
    if route.response_has_tags:
        out.append(0)
    splices: list[tuple[int, Any]] = []
    route.encode(response, out, splices)
    if not splices:
        _LENGTH.pack_into(out, 0, len(out) - 4)
        return out
    _LENGTH.pack_into(out, 0, len(out) - 4 + sum(piece.size for _, piece in splices))
    return Spliced(out, splices)


def _refusal(route: Route, call: Call, request: Struct, error: KafkaError) -> Struct:
    """The error as the whole response: as the handler's module says, or in the response's own error code."""
    if route.refuse is not None:
        return route.refuse(call, request, error)
    fields = {field.name for field in layout_of(route.api.response).fields}
    if "error_code" not in fields:
        raise CloseConnection(f"{route.api.name}: {error.message}") from error
    answer: dict[str, Any] = {"error_code": error.code}
    if "error_message" in fields:
        answer["error_message"] = error.message
    return route.api.response(**answer)
