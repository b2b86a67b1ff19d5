"""A transactional producer by raw frames: every field and version is the test's to choose, and nothing is hidden.

    with Transactional(broker.bootstrap) as producer:
        producer.init()
        producer.add("topic", 0)
        producer.end(committed=True)

Each call returns the error code that came back. The markers of a transaction that ended may still be on their way: then
the broker says CONCURRENT_TRANSACTIONS, and `settled` asks again until it says something else. Kafka's first answer may
also be that it is still fetching producer ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import raw
from members import READY_TIMEOUT_SECONDS, wait_until

TRANSACTION = 1
"""The type of coordinator."""
TIMEOUT_MS = 60_000


class Transactional(raw.Connection):
    """One producer on a connection of its own; it remembers its id and epoch."""

    def __init__(self, bootstrap: str, transactional_id: str | None = None) -> None:
        super().__init__(bootstrap)
        self.id = transactional_id or f"txn-{uuid.uuid4().hex[:12]}"
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        find_transaction_coordinator(self, self.id)

    def init(self, version: int = 4, **fields: Any) -> int:
        """InitProducerId; on success the producer has what it was given."""
        wanted = {"transactional_id": self.id, "transaction_timeout_ms": TIMEOUT_MS, **fields}
        answer = self.call("InitProducerId", version, **wanted)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def recover(self, version: int = 4, producer_id: int | None = None, epoch: int | None = None) -> int:
        """InitProducerId with what the producer has (KIP-360)."""
        mine = self.producer_id if producer_id is None else producer_id
        return self.init(version, producer_id=mine, producer_epoch=self.epoch if epoch is None else epoch)

    def add(self, topic: str, partition: int = 0, version: int = 3, **fields: Any) -> int:
        """AddPartitionsToTxn as clients send it, up to version 3."""
        wanted = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [partition]}],
        }
        answer = self.call("AddPartitionsToTxn", version, **(wanted | fields))
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def add_many(self, topics: Mapping[str, list[int]], version: int = 5, **fields: Any) -> dict[tuple[str, int], int]:
        """AddPartitionsToTxn as brokers send it, from version 4 on."""
        wanted = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "verify_only": False,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        answer = self.call("AddPartitionsToTxn", version, transactions=[wanted | fields])
        assert answer.error_code == 0
        (only,) = answer.results_by_transaction
        return {
            (topic.name, each.partition_index): int(each.partition_error_code)
            for topic in only.topic_results
            for each in topic.results_by_partition
        }

    def add_offsets(self, group: str, version: int = 3, **fields: Any) -> int:
        wanted = {**self.identity(), "group_id": group}
        return int(self.call("AddOffsetsToTxn", version, **(wanted | fields)).error_code)

    def end(self, committed: bool, version: int = 3, **fields: Any) -> int:
        """EndTxn; with version 5 the producer goes on with the epoch that it is told."""
        answer = self.call("EndTxn", version, **({**self.identity(), "committed": committed} | fields))
        if answer.error_code == 0 and version >= 5 and not fields:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def commit_offsets(self, group: str, topic: str, offset: int, version: int = 3, **fields: Any) -> int:
        """TxnOffsetCommit of partition 0."""
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
        wanted = {**self.identity(), "group_id": group, "topics": [{"name": topic, "partitions": [partition]}]}
        answer = self.call("TxnOffsetCommit", version, **(wanted | fields))
        return int(answer.topics[0].partitions[0].error_code)

    def produce(self, topic: str, values: list[bytes], partition: int = 0, version: int = 11) -> int:
        sequence = self.sequences.get((topic, partition), 0)
        records = raw.batch(values, (self.producer_id, self.epoch, sequence), is_transactional=True)
        answer = raw.produce(self, topic, records, partition, version=version, transactional_id=self.id)
        if answer.error_code == 0:
            self.sequences[topic, partition] = sequence + len(values)
        return int(answer.error_code)

    def settled(self, ask: Callable[[], int]) -> int:
        """The first answer that is not that one should ask again."""
        codes: list[int] = []

        def is_settled() -> bool:
            codes.append(ask())
            return codes[-1] not in (raw.Code.concurrent_transactions, raw.Code.coordinator_load_in_progress)

        wait_until(is_settled, READY_TIMEOUT_SECONDS)
        return codes[-1]

    def described(self) -> Any:
        (found,) = self.call("DescribeTransactions", 0, transactional_ids=[self.id]).transaction_states
        return found

    def state(self) -> str:
        return str(self.described().transaction_state)

    def wait_for_state(self, state: str) -> None:
        wait_until(lambda: self.state() == state)

    def identity(self) -> dict[str, Any]:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}


def find_transaction_coordinator(connection: raw.Connection, transactional_id: str) -> None:
    """Return when the id can be used. Kafka makes `__transaction_state` when asked first, and loads it after that."""
    fine = (0, raw.Code.transactional_id_not_found)

    def is_ready() -> bool:
        answer = connection.call("FindCoordinator", 4, key_type=TRANSACTION, coordinator_keys=[transactional_id])
        described = connection.call("DescribeTransactions", 0, transactional_ids=[transactional_id])
        return answer.coordinators[0].error_code == 0 and described.transaction_states[0].error_code in fine

    wait_until(is_ready, READY_TIMEOUT_SECONDS)


def committed_offset(connection: raw.Connection, group: str, topic: str, require_stable: bool = False) -> Any:
    """(error code, offset) of partition 0."""
    asked = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    answer = connection.call("OffsetFetch", 9, groups=asked, require_stable=require_stable)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.error_code, partition.committed_offset
