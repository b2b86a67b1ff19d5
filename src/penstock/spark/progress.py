"""A stream's progress as the offsets of a group, so that its lag is seen where every group's is:

    spark.readStream.format("penstock").option("kafka.group.id", "orders-to-lake")...
    penstock group describe orders-to-lake

Spark never reads them: where a stream goes on is written in its checkpoint. They are published when the next
micro-batch is looked for, and when it turns out that there is none: everything before is done then, also after the last
micro-batch of a run. (Spark's own `commit` comes one micro-batch late, and for the last of a run not at all.)

Rules:
- the name belongs to one query. A group that has members refuses, and that is said once; one whose members are away
  would find its offsets changed;
- a failure is a warning: nobody's data depends on it, so it never stops the query, and the next try is the next batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from penstock.client.groups import Groups
from penstock.errors import KafkaError
from penstock.spark.brokers import connect
from penstock.spark.options import Connecting
from penstock.types import TopicPartition

log = logging.getLogger(__name__)

TIMEOUT_MS = 5_000
"""A coordinator that is away for longer costs a publication, and not the query's time."""


class GroupProgress:
    """Publishes for one stream; does nothing where no group is named."""

    def __init__(self, connecting: Connecting, group: str | None) -> None:
        self._group = group
        self._published: Mapping[TopicPartition, int] = {}
        self._warned = ""
        self._cluster = connect(replace(connecting, timeout_ms=min(connecting.timeout_ms, TIMEOUT_MS)))

    def publish(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The next offset of each partition."""
        if self._group is None or not offsets or offsets == self._published:
            return
        try:
            Groups(self._cluster).commit(self._group, offsets)
        except KafkaError as error:
            if str(error) != self._warned:
                log.warning("The progress is not published as group %r: %s", self._group, error)
            self._warned = str(error)
        else:
            self._published = dict(offsets)

    def close(self) -> None:
        self._cluster.close()
