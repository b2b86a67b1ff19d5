"""A message as a consumer got it, and a delivery as a producer is told of it.

A key or value is decoded when it is looked at, not before: a message that cannot be decoded raises where it is used, so
that one bad message can be set aside and the loop goes on.

    for message in consumer:
        try:
            order = message.value
        except DecodingError as error:
            producer.send("orders.bad", error.message.raw.value())
            continue
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from penstock.types import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

Deserializer = Callable[[bytes], Any]
"""Bytes to what the program works with: `json.loads`, `bytes.decode`, a function of yours."""

NO_TIMESTAMP = -1
_NOT_DECODED = object()


class DecodingError(ValueError):
    """The caller's deserializer failed on a message."""

    def __init__(self, message: Message, part: str, failure: Exception) -> None:
        where = f"offset {message.offset} of {message.topic}-{message.partition}"
        super().__init__(f"The {part} of the message at {where} cannot be decoded: {failure}")
        self.message = message


class Message:
    """One message; `raw` is librdkafka's."""

    __slots__ = ("_decode_key", "_decode_value", "_key", "_value", "raw")

    def __init__(
        self,
        raw: confluent_kafka.Message,
        decode_key: Deserializer | None = None,
        decode_value: Deserializer | None = None,
    ) -> None:
        self.raw = raw
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._key: Any = _NOT_DECODED
        self._value: Any = _NOT_DECODED

    @property
    def topic(self) -> str:
        return cast("str", self.raw.topic())

    @property
    def partition(self) -> int:
        return cast("int", self.raw.partition())

    @property
    def offset(self) -> int:
        return cast("int", self.raw.offset())

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> Any:
        """Bytes, or what the key's deserializer makes of them; None when there is no key."""
        if self._key is _NOT_DECODED:
            self._key = self._decoded("key", self.raw.key(), self._decode_key)
        return self._key

    @property
    def value(self) -> Any:
        """Bytes, or what the value's deserializer makes of them; None when there is no value (a tombstone)."""
        if self._value is _NOT_DECODED:
            self._value = self._decoded("value", self.raw.value(), self._decode_value)
        return self._value

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return cast("list[tuple[str, bytes | None]]", self.raw.headers() or [])

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, the producer's or the broker's; -1 when there is none."""
        return self.raw.timestamp()[1]

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp / 1000, UTC)

    def __repr__(self) -> str:
        where = f"{self.topic}-{self.partition}@{self.offset}"
        return f"Message({where}, key={self.raw.key()!r}, value={self.raw.value()!r})"

    def _decoded(self, part: str, data: Any, decode: Deserializer | None) -> Any:
        if decode is None or data is None:
            return data
        try:
            return decode(data)
        except Exception as failure:
            raise DecodingError(self, part, failure) from failure


class Delivery(NamedTuple):
    """Where a message is; the offset is None when the broker was not asked to say (acks=0)."""

    topic: str
    partition: int
    offset: int | None
    timestamp: int

    @classmethod
    def of(cls, raw: confluent_kafka.Message) -> Delivery:
        offset = raw.offset()
        known = offset if offset is not None and offset >= 0 else None
        return cls(cast("str", raw.topic()), cast("int", raw.partition()), known, raw.timestamp()[1])
