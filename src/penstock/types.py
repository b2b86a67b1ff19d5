"""The words everyone uses: topic ids, topic partitions, and how Kafka writes them down.

A topic id is 16 raw bytes on the wire, in memory and in the metadata store: making a `uuid.UUID` costs more than
a whole batch append. People see it in Kafka's form, 22 characters of URL-safe base64.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, NewType

Bytes = bytes | bytearray | memoryview
"""Anything that holds bytes; a copy has a reason."""

TopicId = NewType("TopicId", bytes)

ZERO_TOPIC_ID = TopicId(bytes(16))
"""No id: an old request that names its topic, or an unset field."""

METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
"""Reserved by Kafka for its metadata topic; never given to a topic."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by name. Hashes and compares like the plain tuple."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: bytes) -> str:
    """Kafka's way to print an id: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_id_from_text(text: str) -> TopicId:
    """The id that `topic_id_text` printed; ValueError when it is no such thing."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a topic id: {error}") from None
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a topic id: it holds {len(raw)} bytes, not 16")
    return TopicId(raw)
