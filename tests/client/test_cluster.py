"""Reaching a cluster: what a person is told when it cannot be, and that it is found again."""

from __future__ import annotations

import math
import socket
import threading
import uuid
from pathlib import Path

import pytest

from brokers import Broker, PenstockProcess
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from ports import free_ports


def test_a_port_where_nobody_listens_is_said_at_once() -> None:
    port = free_ports(1)[0]
    with Cluster(f"127.0.0.1:{port}", sleep=_never) as cluster, pytest.raises(KafkaError) as caught:
        cluster.retry(lambda deadline: cluster.refresh(None, deadline=deadline))
    assert str(caught.value) == (
        f"No broker answered at 127.0.0.1:{port}: connection refused. Is it running? Start one with `penstock serve`."
    )


def test_the_second_address_is_tried_when_the_first_is_silent(broker: Broker) -> None:
    with Cluster(f"127.0.0.1:{free_ports(1)[0]},{broker.bootstrap}") as cluster:
        assert cluster.refresh(()).nodes


def test_something_that_speaks_another_protocol_is_named_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_like_a_web_server() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer_like_a_web_server)
        thread.start()
        with (
            Cluster(f"127.0.0.1:{server.getsockname()[1]}") as cluster,
            pytest.raises(KafkaError, match=r"Kafka's protocol .*\. Perhaps it is not a Kafka broker"),
        ):
            cluster.refresh(None)
        thread.join()


def test_something_that_accepts_and_says_nothing_is_perhaps_a_broker_that_starts() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Cluster(f"127.0.0.1:{server.getsockname()[1]}") as cluster,
        pytest.raises(KafkaError, match=r"No broker answered .* One that is starting answers once its logs are loaded"),
    ):
        cluster.refresh(None, deadline=cluster.deadline(200))


def test_something_that_hangs_up_is_perhaps_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with (
            Cluster(f"127.0.0.1:{server.getsockname()[1]}") as cluster,
            pytest.raises(KafkaError, match="Perhaps it is not a Kafka broker"),
        ):
            cluster.refresh(None)
        thread.join()


def test_whoever_watches_hears_of_retries_and_of_their_end() -> None:
    heard: list[str] = []

    class Watching:
        def on_retry(self, error: KafkaError, waited_seconds: float, left_seconds: float) -> None:
            heard.append(f"{error} {left_seconds}")

        def on_success(self) -> None:
            heard.append("again")

    errors = [KafkaError(ErrorCode.NETWORK_EXCEPTION, "Gone."), KafkaError(ErrorCode.NETWORK_EXCEPTION, "Still.")]

    def attempt(deadline: float) -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    cluster = Cluster("127.0.0.1:1", sleep=lambda seconds: None, watcher=Watching())
    assert [cluster.retry(attempt, math.inf) for _ in range(2)] == ["done", "done"]
    assert heard == ["Gone. inf", "Still. inf", "again"]


def test_a_topic_that_is_not_there_is_an_answer_and_not_a_reason_to_wait(broker: Broker, name: str) -> None:
    with Cluster(broker.bootstrap, sleep=_never) as cluster:
        with pytest.raises(UnknownTopicError, match="penstock topic create"):
            cluster.retry(lambda deadline: cluster.topic(name, deadline=deadline))
        with pytest.raises(KafkaError) as caught:
            cluster.retry(lambda deadline: cluster.topic("not a name", deadline=deadline))
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_partition_that_is_not_there_is_said_with_the_number_there_are(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as cluster, pytest.raises(KafkaError, match=r"no partition 7: it has 1"):
        cluster.leader(TopicPartition(topic, 7))


def test_a_broker_that_was_restarted_is_found_again(tmp_path: Path) -> None:
    name = f"t-{uuid.uuid4().hex[:12]}"
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(name)
        process.kill()
        waits: list[float] = []

        def start_after_two_waits(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 2:
                process.start()

        cluster._sleep = start_after_two_waits
        cluster.forget_topics()
        found = cluster.retry(lambda deadline: cluster.topic(name, deadline=deadline))
    assert len(found.partitions) == 1
    assert waits == sorted(waits)


def _never(seconds: float) -> None:
    raise AssertionError("nothing is waited for")
