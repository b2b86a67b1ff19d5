"""`kill -9` at the worst moments of a transaction: what was decided is carried out, and nothing is half seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import raw
from brokers import PenstockProcess
from members import find_coordinator, wait_until
from transactional import Transactional, committed_offset

TOPIC, PARTITIONS, GROUP = "orders", 4, "g"
DYING = Path(__file__).resolve().parents[1] / "dying_broker.py"
MARKERS = PARTITIONS + 1
"""One more for the offsets."""


class DyingProcess(PenstockProcess):
    """A broker that kills itself once, at the moment that it was told; after that it is as any other."""

    dies_before = ""

    def command(self) -> list[str]:
        command = super().command()
        return [sys.executable, str(DYING), *command[command.index("serve") :]] if self.dies_before else command

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PENSTOCK_DIES_BEFORE": self.dies_before}

    def end_and_die(self, producer: Transactional, committed: bool, version: int) -> None:
        producer.send("EndTxn", version, **producer.identity(), committed=committed)
        assert self._process is not None
        self._process.wait(60)
        self.kill()
        self.dies_before = ""
        self.start()


@pytest.fixture(params=["os", "fsync"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    process = DyingProcess(tmp_path, {"penstock.durability": request.param})
    with process:
        with raw.Connection(process.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, PARTITIONS)
            find_coordinator(connection, GROUP)
        yield process


def begin(producer: Transactional, version: int) -> None:
    """A transaction that has written to every partition, and offsets."""
    for partition in range(PARTITIONS):
        if version < 5:
            assert producer.add(TOPIC, partition) == 0
        assert producer.produce(TOPIC, [b"one", b"two"], partition, 11 if version < 5 else 12) == 0
    if version < 5:
        assert producer.add_offsets(GROUP) == 0
    assert producer.commit_offsets(GROUP, TOPIC, 42, 3 if version < 5 else 5) == 0


def seen(connection: raw.Connection) -> list[list[bytes | None]]:
    """What a reader of committed data finds in each partition, once nothing is undecided any more."""
    found = []
    for partition in range(PARTITIONS):
        wait_until(lambda index=partition: is_stable(connection, index))  # type: ignore[misc]
        answer = raw.fetch(connection, TOPIC, partition=partition, isolation_level=1)
        found.append(committed_values(answer))
    return found


def committed_values(answer: Any) -> list[bytes | None]:
    """As a client does it: an aborted transaction reaches from its first offset to its producer's next marker."""
    values: list[bytes | None] = []
    aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    skipped: set[int] = set()
    for batch in raw.batches(answer.records):
        while aborted and aborted[0][0] <= batch.base_offset:
            skipped.add(aborted.pop(0)[1])
        if batch.is_control_batch:
            skipped.discard(batch.producer_id)
        elif batch.producer_id not in skipped:
            values += [record.value for record in batch]
    return values


def is_stable(connection: raw.Connection, partition: int) -> bool:
    answer = raw.fetch(connection, TOPIC, partition=partition, isolation_level=1)
    return bool(answer.error_code == 0 and answer.last_stable_offset == answer.high_watermark)


@pytest.mark.parametrize("version", [3, 5], ids=["version 1", "version 2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("moment", ["marker:0", "marker:2", f"marker:{MARKERS - 1}", "complete"])
def test_a_prepared_transaction_is_finished_as_prepared(
    broker: DyingProcess, moment: str, committed: bool, version: int
) -> None:
    restart_to_die(broker, moment)
    with Transactional(broker.bootstrap, "t") as producer:
        assert producer.init() == 0
        begin(producer, version)
        broker.end_and_die(producer, committed, version)
    with Transactional(broker.bootstrap, "t") as again:
        again.wait_for_state("CompleteCommit" if committed else "CompleteAbort")
        assert seen(again) == [[b"one", b"two"] if committed else []] * PARTITIONS
        find_coordinator(again, GROUP)
        assert committed_offset(again, GROUP, TOPIC, require_stable=True) == (0, 42 if committed else -1)
        assert again.init() == 0
        assert again.epoch == (1 if version < 5 else 2)
        begin(again, version)
        assert again.end(True, version) == 0
        again.wait_for_state("CompleteCommit")
        assert [each[-2:] for each in seen(again)] == [[b"one", b"two"]] * PARTITIONS


def test_a_transaction_that_was_not_decided_is_still_open(broker: DyingProcess) -> None:
    restart_to_die(broker, "prepare")
    with Transactional(broker.bootstrap, "t") as producer:
        assert producer.init() == 0
        begin(producer, 3)
        broker.end_and_die(producer, True, 3)
        mine = producer.identity()
    with Transactional(broker.bootstrap, "t") as again:
        again.producer_id, again.epoch = mine["producer_id"], mine["producer_epoch"]
        assert again.state() == "Ongoing"
        find_coordinator(again, GROUP)
        assert committed_offset(again, GROUP, TOPIC, require_stable=True) == (raw.Code.unstable_offset_commit, -1)
        assert again.end(True) == 0
        again.wait_for_state("CompleteCommit")
        assert seen(again) == [[b"one", b"two"]] * PARTITIONS
        assert committed_offset(again, GROUP, TOPIC, require_stable=True) == (0, 42)


def test_open_transactions_time_out_after_a_restart_too(broker: DyingProcess) -> None:
    broker.stop()
    broker.settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = "50"
    broker.start()
    with Transactional(broker.bootstrap, "t") as producer:
        assert producer.init(transaction_timeout_ms=3_000) == 0
        begin(producer, 3)
    broker.kill()
    broker.start()
    with Transactional(broker.bootstrap, "t") as again:
        again.wait_for_state("CompleteAbort")
        assert seen(again) == [[]] * PARTITIONS
        assert again.described().producer_epoch == 1


def restart_to_die(broker: DyingProcess, moment: str) -> None:
    broker.stop()
    broker.dies_before = moment
    broker.start()
