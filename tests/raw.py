"""Raw frames for tests: one TCP connection, requests by API name and version, responses in order.

The codec is kafka-python's, not ours, so that what Penstock writes is judged by someone else's reading of the protocol.
Nested structs are given as plain dicts; fields that are left out take the protocol's defaults:

    with Connection(broker.bootstrap) as connection:
        response = connection.call("Metadata", 12, topics=[{"name": "t"}])

Every response must decode to its last byte: it is encoded again and compared with what came.
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
from kafka.protocol.api_message import ApiMessage
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kio.schema.errors import ErrorCode as Code

RECEIVE_TIMEOUT_SECONDS = 30.0
READY_TIMEOUT_SECONDS = 30.0
NO_TOPIC_ID = uuid.UUID(int=0)
RECENT = int(time.time() * 1000) - 3_600_000
"""An hour ago: a time that retention does not yet take for old."""
NO_PRODUCER = (-1, -1, -1)
"""producer id, producer epoch, base sequence of a producer that is not idempotent."""


class Connection:
    """One connection to a broker."""

    def __init__(self, bootstrap: str, timeout_seconds: float = RECEIVE_TIMEOUT_SECONDS) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        """Send one request and return its response."""
        self.send_bytes(self.frame(api, version, **fields))
        return self.receive(api, version)

    def send(self, api: str, version: int, **fields: Any) -> None:
        self.send_bytes(self.frame(api, version, **fields))

    def frame(self, api: str, version: int, **fields: Any) -> bytes:
        """The next request as bytes, length included; it is not sent."""
        self.correlation_id += 1
        return encode_request(api, version, self.correlation_id, fields)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, api: str, version: int, correlation_id: int | None = None) -> Any:
        """The next response, which must answer the request last sent, or the one named."""
        body = self.receive_frame()
        response = decode_response(api, version, body)
        expected = self.correlation_id if correlation_id is None else correlation_id
        assert response.header.correlation_id == expected, (response.header.correlation_id, expected)
        return response

    def receive_frame(self) -> bytes:
        """One frame without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def is_closed_by_peer(self) -> bool:
        """Wait until the peer closes the connection; False when it sends something or stays silent."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def is_silent(self, seconds: float) -> bool:
        """True when nothing comes for so long. Only for what must not come."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(before)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionError(f"closed by the peer after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


def message_class(name: str) -> Any:
    """kafka-python's class for a message, for example FetchRequest."""
    packages = (kafka.protocol.producer, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.admin)
    for package in packages:
        if hasattr(package, name):
            return getattr(package, name)
    raise LookupError(f"kafka-python has no {name}")


def encode_request(api: str, version: int, correlation_id: int, fields: dict[str, Any]) -> bytes:
    message_type = message_class(f"{api}Request")
    request = message_type(version=version, **_structs(message_type, version, fields))
    request.with_header(correlation_id=correlation_id, client_id="penstock-tests")
    return bytes(request.encode(header=True, framed=True))


def decode_response(api: str, version: int, frame: bytes) -> Any:
    message_type = message_class(f"{api}Response")
    response: ApiMessage = message_type.decode(frame, version=version, header=True)
    again = response.encode(header=True)
    assert bytes(again) == frame, f"{api} v{version}: {frame.hex()} is read by kafka-python as {response}"
    return response


def _structs(container: Any, version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Plain dicts turned into kafka-python's own containers."""
    built = {}
    for name, value in fields.items():
        field = container.fields[name]
        if field.is_struct_array() and value is not None:
            value = [_struct(field, version, item) for item in value]
        elif field.is_struct() and value is not None:
            value = _struct(field, version, value)
        built[name] = value
    return built


def _struct(field: Any, version: int, value: dict[str, Any]) -> Any:
    return field.data_class(version=version, **_structs(field.data_class, version, value))


# Record batches


def batch(
    values: Iterable[bytes | None],
    producer: tuple[int, int, int] = NO_PRODUCER,
    timestamp: int = RECENT,
    compression: int = 0,
    keys: Iterable[bytes | None] | None = None,
    is_transactional: bool = False,
) -> bytes:
    """One record batch of kafka-python's making; the first record has `timestamp`, each next one a millisecond more."""
    values = list(values)
    keys = [None] * len(values) if keys is None else list(keys)
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=is_transactional,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=1 << 30,
    )
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        builder.append(index, timestamp=timestamp + index, key=key, value=value, headers=[])
    return bytes(builder.build())


def batches(data: bytes | memoryview | None) -> list[DefaultRecordBatch]:
    """The whole batches of a fetch response's records, their checksums seen right; a cut last one is left out."""
    found = []
    records = MemoryRecords(bytes(data or b""))
    while records.has_next():
        found.append(records.next_batch())
        assert found[-1].validate_crc()
    return found


def values(data: bytes | memoryview | None) -> list[bytes | None]:
    return [record.value for part in batches(data) for record in part]


def produce(
    connection: Connection,
    topic: str,
    records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    version: int = 11,
    **fields: Any,
) -> Any:
    """Produce to one partition by topic name and return that partition's answer."""
    response = connection.call("Produce", version, **produce_fields(topic, records, partition, acks, **fields))
    return response.responses[0].partition_responses[0]


def produce_fields(
    topic: str, records: bytes | None, partition: int = 0, acks: int = -1, **fields: Any
) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": acks, "timeout_ms": 30_000, "topic_data": data, **fields}


def fetch_fields(topic: str, offset: int = 0, partition: int = 0, **fields: Any) -> dict[str, Any]:
    """A fetch of one partition by topic name (versions up to 12), with Kafka's usual limits."""
    limit = fields.pop("partition_max_bytes", 1 << 20)
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": limit}
    asked |= fields.pop("partition_fields", {})
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50 << 20, "session_epoch": -1}
    return {**limits, "topics": [{"topic": topic, "partitions": [asked]}], **fields}


def fetch(connection: Connection, topic: str, offset: int = 0, version: int = 12, **fields: Any) -> Any:
    """Fetch one partition by topic name and return that partition's answer."""
    response = connection.call("Fetch", version, **fetch_fields(topic, offset, **fields))
    assert response.error_code == 0, response
    return response.responses[0].partitions[0]


def create_topic(connection: Connection, name: str, partitions: int = 1, **configs: str) -> Any:
    """Create a topic; underscores in setting names stand for dots. Returns its entry of the answer."""
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    response = connection.call("CreateTopics", 7, topics=[topic], timeout_ms=30_000, validate_only=False)
    assert response.topics[0].error_code == 0, response
    return response.topics[0]


def topic_id(connection: Connection, name: str) -> uuid.UUID:
    asked = [{"name": name, "topic_id": NO_TOPIC_ID}]
    response = connection.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
    found: uuid.UUID = response.topics[0].topic_id
    return found


def init_producer_id(connection: Connection) -> tuple[int, int]:
    """A new idempotent producer's id and epoch. Kafka's first answer may be that it is still fetching some ids."""
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    while True:
        response = connection.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000)
        if response.error_code == 0:
            return response.producer_id, response.producer_epoch
        assert response.error_code == Code.coordinator_load_in_progress, response
        assert time.monotonic() < deadline, response
        time.sleep(0.05)
