"""Transactions with Kafka's own tools: TransactionsCommand, ProducerPerformance, and the dump of our files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import oracle
from brokers import Broker
from clients import Confluent
from members import wait_until
from penstock.broker.internal_topic import partition_for
from transactional import Transactional

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools."
COMMAND = TOOLS + "TransactionsCommand"
DUMP = TOOLS + "DumpLogSegments"


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def run(broker: Broker, *arguments: str) -> str:
    done = oracle.run_tool(COMMAND, ["--bootstrap-server", broker.bootstrap, *arguments])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.strip()]


def test_transactions_command(broker: Broker, topic: str) -> None:
    with Transactional(broker.bootstrap) as producer:
        assert producer.settled(producer.init) == 0
        assert producer.add(topic) == 0
        assert producer.produce(topic, [b"v"]) == 0
        listed = {row[0]: row[1:] for row in rows(run(broker, "list"))}
        assert listed[producer.id][1:] == [str(producer.producer_id), "Ongoing"]
        described = next(
            row for row in rows(run(broker, "describe", "--transactional-id", producer.id)) if topic in row[-1]
        )
        assert described[1:5] == [producer.id, str(producer.producer_id), str(producer.epoch), "Ongoing"]
        assert described[-1] == f"{topic}-0"
        writers = rows(run(broker, "describe-producers", "--topic", topic, "--partition", "0"))
        assert [row[:2] for row in writers[1:]] == [[str(producer.producer_id), str(producer.epoch)]]
        assert writers[1][-1] == "0", "the first offset of the open transaction"
        run(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        after = rows(run(broker, "describe-producers", "--topic", topic, "--partition", "0"))
        assert after[1][-1] == "None"


def test_a_java_producer_uses_version_2(broker: Broker, topic: str) -> None:
    with Transactional(broker.bootstrap) as other:
        arguments = ["--topic", topic, "--num-records", "500", "--record-size", "10", "--throughput", "-1"]
        arguments += ["--producer-props", f"bootstrap.servers={broker.bootstrap}"]
        arguments += ["--transactional-id", other.id, "--transaction-duration-ms", "20"]
        done = oracle.run_tool(TOOLS + "ProducerPerformance", arguments)
        assert "500 records sent" in done.stdout, done.stdout + done.stderr
        wait_until(lambda: other.state() in ("CompleteCommit", "CompleteAbort"))
        assert other.described().producer_epoch >= 1, "an epoch for each transaction"
    found = Confluent().consume(broker.bootstrap, topic, 0, 500, options={"isolation.level": "read_committed"})
    assert len(found) == 500


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_the_dump_reads_our_transaction_log(broker: Broker, new_topic: Callable[..., str], committed: bool) -> None:
    topic = new_topic(partitions=2)
    with Transactional(broker.bootstrap) as producer:
        assert producer.settled(producer.init) == 0
        assert producer.add_many({topic: [0, 1]}) == {(topic, 0): 0, (topic, 1): 0}
        assert producer.produce(topic, [b"v"], version=12) == 0
        assert producer.end(committed, 5) == 0
        producer.wait_for_state("CompleteCommit" if committed else "CompleteAbort")
        home = f"__transaction_state-{partition_for(producer.id, 50)}"
        log = str(broker.log_dir / home / f"{0:020d}.log")
        done = oracle.run_tool(DUMP, ["--files", log, "--transaction-log-decoder"])
        assert done.returncode == 0, done.stderr
        payloads = [line.partition("payload: ")[2] for line in done.stdout.splitlines() if producer.id in line]
        values = [json.loads(payload) for payload in payloads]
        assert {value["version"] for value in values} == {"1"}
        written = [value["data"] for value in values]
        ends = [2, 4] if committed else [3, 5]
        assert [value["transactionStatus"] for value in written] == [0, 1, *ends]
        assert [value["producerEpoch"] for value in written] == [0, 0, 1, 1]
        assert [value["previousProducerId"] for value in written] == [producer.producer_id] * 4
        assert [value.get("clientTransactionVersion", 0) for value in written] == [0, 2, 2, 2]
        partitions = [{name: sorted(each) for name, each in named(value).items()} for value in written]
        assert partitions == [{}, {topic: [0, 1]}, {topic: [0, 1]}, {}]
        assert written[0]["transactionPartitions"] is None
        assert written[3]["transactionPartitions"] == []
        data = str(broker.log_dir / f"{topic}-0" / f"{0:020d}.log")
        done = oracle.run_tool(DUMP, ["--files", data, "--print-data-log"])
        assert f"endTxnMarker: {'COMMIT' if committed else 'ABORT'}" in done.stdout, done.stdout


def named(value: dict[str, Any]) -> dict[str, list[int]]:
    """The partitions of a record by topic."""
    return {each["topic"]: each["partitionIds"] for each in value["transactionPartitions"] or ()}
