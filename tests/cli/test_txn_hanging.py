"""`penstock txn` and a transaction that hangs: a partition has it open, and no coordinator knows of it.

It comes about only where writes are not verified, so each test starts a broker of its own without that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import oracle
import penstock as library
import raw
from brokers import Broker, PenstockProcess
from cli.commands import start
from transactional import Transactional

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
COMMAND_TIMEOUT_SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["penstock", pytest.param("kafka", marks=pytest.mark.oracle)])
def test_a_transaction_that_no_coordinator_knows_is_shown_and_ended(kind: str, tmp_path: Path) -> None:
    """A late write begins it. Nothing else would ever end it."""
    with unverified_broker(kind, tmp_path) as broker, Transactional(broker.bootstrap) as producer:
        raw.create_topic(producer, "orders")
        raw.produce(producer, "orders", raw.batch([b"before"]))
        assert producer.settled(producer.init) == 0
        assert producer.produce("orders", [b"late"]) == 0
        raw.produce(producer, "orders", raw.batch([b"behind it"]))

        assert penstock_txn(broker, "list", "--state", "Ongoing") == ""
        listed = penstock_txn(broker, "list", "--topic", "orders")
        assert listed.startswith(f"0\t1\t{producer.producer_id}\t{producer.epoch}\t")
        assert committed(broker) == [b"before"]
        ended = penstock_txn(broker, "abort", "--topic", "orders", "--partition", "0", "--start-offset", "1")
        assert ended == f"Aborted the transaction of producer {producer.producer_id} in orders-0 from offset 1 on.\n"
        assert penstock_txn(broker, "list", "--topic", "orders") == ""
        assert committed(broker) == [b"before", b"behind it"]


def unverified_broker(kind: str, directory: Path) -> oracle.KafkaNode | PenstockProcess:
    if kind == "penstock":
        return PenstockProcess(directory, UNVERIFIED)
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    return oracle.KafkaNode(directory, UNVERIFIED)


def penstock_txn(broker: Broker, *arguments: str) -> str:
    """As a process of its own, as people run it."""
    process = start("txn", *arguments, bootstrap=broker.bootstrap)
    stdout, stderr = process.communicate(timeout=COMMAND_TIMEOUT_SECONDS)
    assert process.returncode == 0, stderr
    return stdout.decode()


def committed(broker: Broker) -> list[bytes]:
    with library.Consumer("orders", broker.bootstrap, partitions="all", stop_at_end=True) as reader:
        return [message.value for message in reader]
