"""How far a stream has read, as Spark keeps it in the checkpoint:

    {"orders": {"0": 120, "1": 98, "id": "4Zk3S2vQTmK1hJ0y8Yw7Vg"}}

The next offset of each partition, as Spark's own Kafka source writes it, and the topic's id: a topic that was deleted
and created anew has the same name and another id. A checkpoint without ids, of a Kafka source or an old broker, is
read too.

    {"@": "starting"}

stands before the first batch of a stream that starts at the end of the log. Spark asks for the first offset more than
once, and again after a crash; "the end" would be another offset each time, and what lies between would be lost. So the
first batch of such a stream is an empty one, whose end is where it starts, written down by Spark.

Spark compares offsets by their text: the same offsets are always written in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError
from penstock.types import TopicPartition

STARTING: dict[str, Any] = {"@": "starting"}
"""No topic has such a name."""

_ID = "id"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, and the topics' ids as far as they are known."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            written.setdefault(topic, {})[str(partition)] = offset
        for topic, entry in written.items():
            if topic in self.topic_ids:
                entry[_ID] = self.topic_ids[topic]
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> StreamOffset:
        """ConfigError when it is something else: a checkpoint of another source."""
        offsets, ids = {}, {}
        try:
            for topic, entry in written.items():
                for key, value in entry.items():
                    if key == _ID:
                        ids[topic] = str(value)
                    else:
                        offsets[TopicPartition(topic, int(key))] = int(value)
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(
                f"The checkpoint has offsets that are not a topic's: {dict(written)!r:.200}. "
                "Was its query another one? Choose another checkpointLocation."
            ) from error
        return cls(offsets, ids)

    def is_same_topic(self, topic: str, topic_id: str | None) -> bool:
        """Whether a topic of this id may be the one that was read; without an id nobody can tell."""
        return topic_id is None or self.topic_ids.get(topic, topic_id) == topic_id
