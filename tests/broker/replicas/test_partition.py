"""One partition on this broker: who may write, in which epoch, and what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process import batch, create_topic, partition, run, running
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import PartitionImage


def code_of(call: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(KafkaError) as refused:
        call()
    return refused.value.code


def changed(state: PartitionImage, **fields: object) -> PartitionImage:
    values = {name: getattr(state, name) for name in state.__slots__} | fields
    return PartitionImage(**values)  # type: ignore[arg-type]


def with_partition(tmp_path: Path, check: object, **configs: str) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", **configs)
            assert callable(check)
            check(partition(broker, "t"))

    run(scenario())


def append(target: Partition, acks: int = -1) -> int:
    return target.append(memoryview(bytearray(batch(b"x"))), acks).base_offset


def test_a_message_is_committed_and_counted_when_it_is_in_the_log(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        records = batch(b"a", b"b")
        target.append(memoryview(bytearray(records)), -1)
        assert target.offsets() == (0, 2, 2, 2)
        assert (target.messages_in, target.bytes_in) == (2, len(records))

    with_partition(tmp_path, check)


def test_a_duplicate_is_answered_as_the_first_and_counted_once(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        records = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
        first = target.append(memoryview(bytearray(records)), -1)
        again = target.append(memoryview(bytearray(records)), -1)
        assert (again.base_offset, again.is_duplicate) == (first.base_offset, True)
        assert (target.messages_in, target.log.log_end_offset) == (1, 1)

    with_partition(tmp_path, check)


def test_who_does_not_lead_takes_nothing(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        append(target)
        target.apply(changed(target.state, leader=99, leader_epoch=7))
        assert code_of(lambda: append(target)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code_of(lambda: target.check_leader(-1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code_of(lambda: target.delete_records(1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert target.log.log_end_offset == 1

    with_partition(tmp_path, check)


def test_old_and_future_epochs_are_fenced(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        target.apply(changed(target.state, leader_epoch=5))
        target.check_leader(-1)
        target.check_leader(5)
        assert code_of(lambda: target.check_leader(4)) == ErrorCode.FENCED_LEADER_EPOCH
        assert code_of(lambda: target.check_leader(6)) == ErrorCode.UNKNOWN_LEADER_EPOCH

    with_partition(tmp_path, check)


def test_acks_all_needs_enough_replicas_in_sync_and_acks_1_does_not(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        target.apply(changed(target.state, replicas=(*target.state.replicas, 98, 99)))
        target.on_config()
        assert code_of(lambda: append(target)) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert append(target, acks=1) == 0

    with_partition(tmp_path, check, min_insync_replicas="2")


def test_a_disk_that_is_nearly_full_refuses_writes_until_it_is_not(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        target.set_disk_full(True)
        assert code_of(lambda: append(target)) == ErrorCode.KAFKA_STORAGE_ERROR
        target.set_disk_full(False)
        assert append(target) == 0

    with_partition(tmp_path, check)


def test_records_are_deleted_up_to_the_high_watermark_and_where_the_policy_allows(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        for _ in range(4):
            append(target)
        assert target.delete_records(2) == 2
        assert target.delete_records(1) == 2
        assert code_of(lambda: target.delete_records(5)) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert code_of(lambda: target.delete_records(-2)) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert target.delete_records(-1) == 4

    with_partition(tmp_path, check)


def test_records_of_a_compacted_topic_are_not_deleted(tmp_path: Path) -> None:
    def check(target: Partition) -> None:
        assert code_of(lambda: target.delete_records(0)) == ErrorCode.POLICY_VIOLATION

    with_partition(tmp_path, check, cleanup_policy="compact")
