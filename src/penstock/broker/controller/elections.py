"""Elections: who leads a partition. Pure: an image in, operations out.

A broker that starts becomes the leader of the partitions that have it in their in-sync set and no other live leader,
in a new leader epoch. The epoch grows also where the same broker led before: what it had not yet written to the disk
may be gone, and a new epoch lets consumers and followers notice (KIP-320). Kafka does the same.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.metadata import records
from penstock.metadata.image import Image, PartitionImage, TopicImage
from penstock.metadata.store import Check, Op, Put


def plan_broker_started(image: Image, broker_id: int) -> list[Op]:
    """New leader epochs for every partition that the started broker is to lead; `image` may be from before it."""
    ops: list[Op] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            has_other_leader = partition.leader != broker_id and partition.leader in image.brokers
            if broker_id in partition.isr and not has_other_leader:
                ops += _elect(image, topic, partition, broker_id)
    return ops


def _elect(image: Image, topic: TopicImage, partition: PartitionImage, leader: int) -> list[Op]:
    record = image.partition_record(topic.topic_id, partition.index)
    assert record is not None, "a partition with an in-sync set has a state"
    state = replace(
        record, leader=leader, leader_epoch=record.leader_epoch + 1, partition_epoch=record.partition_epoch + 1
    )
    key = records.partition_key(topic.topic_id, partition.index)
    return [Check(key, partition.version), Put(key, state.encode())]
