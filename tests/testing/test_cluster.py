"""`penstock.testing.Cluster`: starts, serves any client, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import tempfile
import threading
from pathlib import Path

import kafka
import pytest

from clients import AioKafka, Confluent, KafkaPython, Record
from penstock.errors import ConfigError
from penstock.testing import Cluster


def open_files() -> set[str]:
    """What this process holds open, but for pipes and event files of other libraries."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found


def temporary_directories() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("penstock-cluster-")}


@pytest.mark.parametrize("driver", [Confluent(), KafkaPython(), AioKafka()], ids=lambda driver: driver.name)
def test_any_client_connects(driver):
    with Cluster() as cluster:
        topic = cluster.create_topic()
        driver.produce(cluster.bootstrap, topic, [Record(b"one"), Record(b"two")])
        got = driver.consume(cluster.bootstrap, topic, 0, 2)
    assert [record.value for record in got] == [b"one", b"two"]


def test_it_leaves_no_thread_no_file_and_no_port_behind():
    with Cluster() as cluster:  # what is imported at first use stays, and is no leak
        cluster.create_topic()
    threads = set(threading.enumerate())
    files = open_files()
    with Cluster() as cluster:
        directory = cluster.directory
        cluster.create_topic(partitions=3)
        assert (directory / "penstock-metadata.db").exists()
    assert set(threading.enumerate()) <= threads
    assert open_files() - files == set()
    assert not directory.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", cluster.port)) != 0


def test_a_connected_client_does_not_keep_it_from_stopping():
    with Cluster() as cluster:
        topic = cluster.create_topic()
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap)
        producer.send(topic, b"v").get(20)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", cluster.port)) != 0
    producer.close(timeout=1)


def test_several_live_side_by_side():
    with Cluster() as first, Cluster() as second, Cluster() as third:
        assert len({first.port, second.port, third.port}) == 3
        for cluster in (first, second, third):
            cluster.create_topic("same")
            Confluent().produce(cluster.bootstrap, "same", [Record(cluster.bootstrap.encode())])
        for cluster in (first, second, third):
            assert Confluent().consume(cluster.bootstrap, "same", 0, 1)[0].value == cluster.bootstrap.encode()


def test_a_given_directory_keeps_its_topics(tmp_path: Path):
    with Cluster(tmp_path / "data") as cluster:
        cluster.create_topic("kept")
        Confluent().produce(cluster.bootstrap, "kept", [Record(b"v")])
    with Cluster(tmp_path / "data") as cluster:
        assert Confluent().consume(cluster.bootstrap, "kept", 0, 1)[0].value == b"v"


def test_it_can_be_stopped_and_started_again_on_its_port(tmp_path: Path):
    cluster = Cluster(str(tmp_path))
    cluster.start()
    port = cluster.port
    cluster.create_topic("kept")
    cluster.stop()
    cluster.stop()
    cluster.start()
    try:
        assert cluster.port == port
        assert "kept" in kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap).topics()
    finally:
        cluster.stop()


def test_without_a_directory_everything_is_there_after_stop_and_start():
    with Cluster() as cluster:
        cluster.create_topic("kept")
        Confluent().produce(cluster.bootstrap, "kept", [Record(b"v")])
        directory = cluster.directory
        cluster.stop()
        cluster.start()
        assert cluster.directory == directory
        assert Confluent().consume(cluster.bootstrap, "kept", 0, 1)[0].value == b"v"
    assert not directory.exists()


def test_the_files_go_with_the_object_when_nobody_closes_it():
    cluster = Cluster()
    cluster.start()
    directory = cluster.directory
    cluster.stop()
    assert directory.exists()
    del cluster
    gc.collect()
    assert not directory.exists()


def test_a_failed_second_start_loses_nothing():
    cluster = Cluster()
    cluster.start()
    cluster.create_topic("kept")
    cluster.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", cluster.port))
        taken.listen()
        with pytest.raises(ConfigError):
            cluster.start()
    cluster.start()
    assert "kept" in kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap).topics()
    cluster.close()


def test_settings_come_by_name_or_by_keyword():
    with Cluster(settings={"num.partitions": 3}, auto_create_topics_enable=True) as cluster:
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap)
        producer.send("made-by-use", b"v").get(20)
        assert len(producer.partitions_for("made-by-use")) == 3
        producer.close()


def test_a_topic_takes_settings_and_partitions():
    with Cluster() as cluster:
        assert cluster.create_topic("small", 2, max_message_bytes=200, cleanup_policy="compact") == "small"
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap)
        assert producer.partitions_for("small") == {0, 1}
        with pytest.raises(Exception, match=r"(?i)large|size"):
            producer.send("small", b"x" * 1000, key=b"k").get(20)
        producer.close()


def test_the_environment_of_the_machine_does_not_reach_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PENSTOCK_NUM_PARTITIONS", "7")
    with Cluster(auto_create_topics_enable=True) as cluster:
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap)
        producer.send("made-by-use", b"v").get(20)
        assert len(producer.partitions_for("made-by-use")) == 1
        producer.close()


def test_a_wrong_setting_is_a_sentence_and_leaves_nothing():
    before = temporary_directories()
    threads = set(threading.enumerate())
    with pytest.raises(ConfigError, match=r"num\.partitions"), Cluster(num_partitions="many"):
        pass
    assert temporary_directories() <= before
    assert set(threading.enumerate()) <= threads


def test_a_port_in_use_is_a_sentence_and_leaves_nothing():
    threads = set(threading.enumerate())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)), Cluster(port=port):
            pass
    assert set(threading.enumerate()) <= threads


def test_it_works_in_an_event_loop():
    async def scenario() -> list[bytes | None]:
        async with Cluster() as cluster:
            topic = cluster.create_topic()
            await asyncio.to_thread(Confluent().produce, cluster.bootstrap, topic, [Record(b"v")])
            return [record.value for record in Confluent().consume(cluster.bootstrap, topic, 0, 1)]

    assert asyncio.run(scenario()) == [b"v"]
