"""`penstock txn`, against both brokers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

import penstock as library
import raw
from brokers import Broker
from capabilities import needs_transactions
from changes import check_seen
from cli.commands import run
from members import wait_until
from penstock.client.cluster import Cluster
from penstock.client.transactions import TransactionInfo, Transactions
from penstock.errors import ErrorCode, KafkaError
from transactional import Transactional

LONG_MS = 600_000
LONG_SECONDS = 60.0
"""Kafka looks for transactions whose time is over every ten seconds."""


@pytest.fixture(autouse=True)
def _transactions(broker: Broker) -> None:
    needs_transactions(broker.bootstrap)


@pytest.fixture
def transactional_id() -> str:
    return f"x-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def two(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


@pytest.fixture
def hanging(broker: Broker, two: str, transactional_id: str) -> Iterator[library.Producer]:
    """A producer that has written to both partitions and does not end its transaction."""
    options = {"transaction.timeout.ms": LONG_MS}
    producer = library.Producer(broker.bootstrap, transactional_id=transactional_id, options=options)
    producer.transaction().__enter__()
    for partition in (0, 1):
        producer.send(two, b"hanging", partition=partition).result(30)
    yield producer
    producer.close()


def ask(broker: Broker, *arguments: str) -> Any:
    result = run("txn", *arguments, "--json", bootstrap=broker.bootstrap)
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def committed(broker: Broker, topic: str) -> list[bytes]:
    with library.Consumer(topic, broker.bootstrap, partitions="all", stop_at_end=True) as reader:
        return [message.value for message in reader]


def test_an_open_transaction_is_shown_and_ended(
    broker: Broker, hanging: library.Producer, two: str, transactional_id: str
) -> None:
    (listed,) = [each for each in ask(broker, "list") if each["transactional_id"] == transactional_id]
    assert listed["state"] == "Ongoing"
    (described,) = ask(broker, "describe", transactional_id)
    assert described["state"] == "Ongoing"
    assert described["timeout_ms"] == LONG_MS
    assert described["started"] is not None
    assert described["partitions"] == [{"topic": two, "partition": number} for number in (0, 1)]
    assert described["producer_id"] == listed["producer_id"]

    with library.Producer(broker.bootstrap) as other:
        other.send(two, b"behind it", partition=0).result(30)
    assert committed(broker, two) == [], "readers wait behind it"
    ended = run("txn", "abort", transactional_id, bootstrap=broker.bootstrap)
    assert ended.stdout == f"Aborted the transaction of {transactional_id} in 2 partitions.\n"
    assert committed(broker, two) == [b"behind it"]
    assert ask(broker, "describe", transactional_id)[0]["partitions"] == []


def test_its_producer_is_out(broker: Broker, hanging: library.Producer, transactional_id: str) -> None:
    run("txn", "abort", transactional_id, bootstrap=broker.bootstrap)
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        hanging.raw.commit_transaction(30)
    assert failure.value.args[0].fatal()


def commit_one(broker: Broker, producer: library.Producer, topic: str, transactional_id: str) -> None:
    with producer.transaction():
        producer.send(topic, b"v")
    with Cluster(broker.bootstrap) as cluster:  # Kafka writes the markers after its answer
        check_seen(broker, lambda: Transactions(cluster).describe([transactional_id])[0].state, "CompleteCommit")


def test_one_that_is_not_open_is_said_to_be_so(broker: Broker, two: str, transactional_id: str) -> None:
    with library.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        commit_one(broker, producer, two, transactional_id)
        result = run("txn", "abort", transactional_id, bootstrap=broker.bootstrap)
        assert result.exit_code == 1
        assert result.stdout.startswith(f"{transactional_id} has no open transaction: nothing to abort.")
        commit_one(broker, producer, two, transactional_id)  # it was left alone


def test_a_producer_with_nothing_open_is_put_out_on_request(broker: Broker, two: str, transactional_id: str) -> None:
    with library.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        commit_one(broker, producer, two, transactional_id)
        result = run("txn", "abort", transactional_id, "--fence", bootstrap=broker.bootstrap)
        assert result.stdout == f"{transactional_id} had no open transaction; its producer is out.\n"
        assert result.exit_code == 0
        with pytest.raises(KafkaError), producer.transaction():
            producer.send(two, b"too late")


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        ("PrepareCommit", 1, "is being committed, which cannot be undone: nothing to abort."),
        ("PrepareAbort", 0, "is being aborted already."),
        ("PrepareEpochFence", 0, "is being aborted already."),
    ],
)
def test_what_is_ending_is_left_to_end(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch, state: str, status: int, said: str
) -> None:
    info = TransactionInfo("x", state, 1, 0, 1000, None, 1, ())
    monkeypatch.setattr(Transactions, "describe", lambda *_: [info])
    result = run("txn", "abort", "x", bootstrap=penstock.bootstrap)
    assert (result.exit_code, result.stdout) == (status, f"The transaction of x {said}\n")


def test_one_that_its_producer_commits_meanwhile_is_not_said_to_be_aborted(
    broker: Broker, two: str, transactional_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        commit_one(broker, producer, two, transactional_id)
    seen_before = TransactionInfo(transactional_id, "Ongoing", 1, 0, 1000, None, 1, ())
    monkeypatch.setattr(Transactions, "describe", lambda *_: [seen_before])
    result = run("txn", "abort", transactional_id, bootstrap=broker.bootstrap)
    assert result.exit_code == 1
    assert "ended by itself, before it could be aborted; its producer is out." in result.stdout


def test_a_broker_that_is_lost_in_the_middle_leaves_the_outcome_open(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = TransactionInfo("x", "Ongoing", 1, 0, 1000, None, 1, ())

    def lose(*_: object) -> int:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "It is gone.")

    monkeypatch.setattr(Transactions, "_coordinator", lose)
    with Cluster(penstock.bootstrap, timeout_ms=200) as cluster, pytest.raises(KafkaError) as lost:
        Transactions(cluster).abort(info)
    assert str(lost.value).startswith("It is not known whether the transaction of 'x' was aborted. It is gone. ")


def test_filters(broker: Broker, hanging: library.Producer, transactional_id: str) -> None:
    def ids(*arguments: str) -> list[str]:
        return run("txn", "list", *arguments, bootstrap=broker.bootstrap).stdout.splitlines()

    assert transactional_id in ids("--state", "ongoing")
    assert transactional_id not in ids("--state", "CompleteCommit", "--state", "Empty")
    assert transactional_id in ids("--longer-than", "0")
    assert transactional_id not in ids("--longer-than", "600")
    assert run("txn", "list", "--longer-than", str(2**62), bootstrap=broker.bootstrap).exit_code == 2
    run("txn", "abort", transactional_id, bootstrap=broker.bootstrap)
    assert transactional_id in ids()
    assert transactional_id not in ids("--longer-than", "0"), "it is open no more"


def test_describe_for_people(broker: Broker, hanging: library.Producer, two: str, transactional_id: str) -> None:
    text = run("txn", "describe", transactional_id, bootstrap=broker.bootstrap).stdout
    assert text.startswith(f"{transactional_id}  Ongoing, producer ")
    assert "open for " in text
    assert f"{two}\t0, 1" in text


def test_partitions_tell_what_is_open_in_them(
    broker: Broker, hanging: library.Producer, two: str, transactional_id: str
) -> None:
    (described,) = ask(broker, "describe", transactional_id)
    opened = ask(broker, "list", "--topic", two)
    assert [(each["topic"], each["partition"], each["start_offset"]) for each in opened] == [(two, 0, 0), (two, 1, 0)]
    assert {each["producer_id"] for each in opened} == {described["producer_id"]}
    text = run("txn", "list", "--topic", two, bootstrap=broker.bootstrap).stdout
    assert text.startswith(f"0\t0\t{described['producer_id']}\t")
    assert run("txn", "abort", transactional_id, bootstrap=broker.bootstrap).exit_code == 0
    assert ask(broker, "list", "--topic", two) == []


def test_what_a_coordinator_knows_is_not_aborted_by_halves(
    broker: Broker, hanging: library.Producer, two: str, transactional_id: str
) -> None:
    result = run("txn", "abort", *place(two, 1, 0), bootstrap=broker.bootstrap)
    assert result.exit_code == 1
    assert f"`penstock txn abort {transactional_id}` aborts it in all of its partitions" in str(result.exception)
    assert len(ask(broker, "list", "--topic", two)) == 2


def test_nothing_open_at_an_offset_is_a_sentence(broker: Broker, two: str) -> None:
    result = run("txn", "abort", *place(two, 1, 7), bootstrap=broker.bootstrap)
    assert result.exit_code == 1
    assert f"No open transaction of {two}-1 began at offset 7." in str(result.exception)


@pytest.mark.parametrize("arguments", [(), ("an-id", "--topic", "t"), ("--topic", "t", "--partition", "0")])
def test_a_transaction_is_named_in_one_way(broker: Broker, arguments: tuple[str, ...]) -> None:
    result = run("txn", "abort", *arguments, bootstrap=broker.bootstrap)
    assert result.exit_code == 2
    assert "by its ID, or by --topic, --partition and --start-offset" in result.output


def place(topic: str, partition: int, start_offset: int) -> tuple[str, ...]:
    return ("--topic", topic, "--partition", str(partition), "--start-offset", str(start_offset))


@pytest.mark.slow
def test_readers_wait_no_longer_than_the_timeout(broker: Broker, topic: str, transactional_id: str) -> None:
    """A producer writes and is never heard of again."""
    with Transactional(broker.bootstrap, transactional_id) as producer:
        assert producer.settled(lambda: producer.init(transaction_timeout_ms=1000)) == 0
        assert producer.produce(topic, [b"left open"], version=12) == 0
        raw.produce(producer, topic, raw.batch([b"behind it"]))
    wait_until(lambda: committed(broker, topic) == [b"behind it"], LONG_SECONDS)
    (described,) = ask(broker, "describe", transactional_id)
    assert (described["state"], described["partitions"]) == ("CompleteAbort", [])


@pytest.mark.parametrize("verb", ["describe", "abort"])
def test_an_unknown_id_is_a_sentence(broker: Broker, transactional_id: str, verb: str) -> None:
    result = run("txn", verb, transactional_id, bootstrap=broker.bootstrap)
    assert result.exit_code == 1
    assert f"There is no transactional id '{transactional_id}'" in str(result.exception)
