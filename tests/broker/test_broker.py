"""A whole broker in one process: it starts, stops, fails to start, and gives up, each time in order."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from in_process import (
    LONG_WAIT_MS,
    TestFiles,
    batch,
    connected,
    create_topic,
    partition,
    produce_request,
    run,
    running,
    set_config,
    until,
)
from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.broker.controller.configs import ResourceType
from penstock.errors import ConfigError
from penstock.metadata.store import StoreError


def configured(directory: Path, *settings: str) -> BrokerConfig:
    return BrokerConfig.load(None, {}, ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={directory}", *settings])


def test_it_starts_and_stops_and_starts_again_on_its_data(tmp_path: Path) -> None:
    async def scenario() -> None:
        for number in range(3):
            async with running(tmp_path) as broker, connected(broker) as client:
                if not number:
                    await create_topic(broker, "t")
                assert (await client.produce("t", batch(b"x"))).base_offset == number
            assert (tmp_path / ".kafka_cleanshutdown").exists()

    run(scenario())


def test_a_second_broker_on_the_same_data_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            with pytest.raises(ConfigError, match="in use by another broker"):
                await Broker(configured(tmp_path)).start()
            assert (await client.produce("t", batch(b"x"))).error_code == 0

    run(scenario())


def test_a_start_that_fails_gives_everything_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            port = broker.addresses[0][2]
        (tmp_path / "meta.properties").write_text("cluster.id=another\nnode.id=1\nversion=1\n")
        with pytest.raises(ConfigError, match=r"cluster\.id=another"):
            await Broker(configured(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}")).start()
        (tmp_path / "meta.properties").unlink()
        async with running(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}"):
            pass

    run(scenario())


def test_the_directory_of_another_broker_is_left_as_it_is(tmp_path: Path) -> None:
    """Kafka's own data directory, for instance: nothing in it is known here, and nothing is put aside."""

    async def scenario() -> None:
        foreign = tmp_path / "foreign"
        (foreign / "orders-0").mkdir(parents=True)
        (foreign / "meta.properties").write_text("cluster.id=another\nnode.id=1\nversion=1\n")
        (foreign / ".kafka_cleanshutdown").touch()
        before = sorted(path.name for path in foreign.iterdir())
        settings = (f"log.dirs={tmp_path / 'own'},{foreign}", f"penstock.metadata.url=sqlite://{tmp_path / 'meta.db'}")
        with pytest.raises(ConfigError, match=r"cluster\.id=another"):
            await Broker(configured(tmp_path, *settings)).start()
        assert sorted(path.name for path in foreign.iterdir()) == before

    run(scenario())


def test_a_port_that_is_taken_is_said_before_the_data_is_touched(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1:{port}"):
                await Broker(configured(tmp_path / "data", f"listeners=PLAINTEXT://127.0.0.1:{port}")).start()
        assert not (tmp_path / "data").exists()

    run(scenario())


def test_a_data_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(ConfigError, match="cannot be made"):
            await Broker(configured(tmp_path / "file" / "data")).start()

    run(scenario())


def test_a_start_that_is_cancelled_in_the_middle_is_undone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path):
            pass
        broker = Broker(configured(tmp_path))
        starting = asyncio.create_task(broker.start())
        await until(lambda: hasattr(broker, "context"))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with running(tmp_path):
            pass

    run(scenario())


def test_a_stop_does_not_wait_for_consumers_that_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            waiting = asyncio.create_task(client.fetch("t", max_wait_ms=LONG_WAIT_MS))
            await until(lambda: partition(broker, "t").waiters)
            await broker.stop()
            with pytest.raises(asyncio.IncompleteReadError):
                await waiting
            assert not partition(broker, "t").waiters

    run(scenario())


def test_one_part_that_does_not_stop_keeps_no_other_from_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        def fail() -> None:
            raise RuntimeError("stuck")

        broker = Broker(configured(tmp_path))
        await broker.start()
        broker._stack.append(fail)
        with pytest.raises(RuntimeError, match="stuck"):
            await broker.stop()
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with running(tmp_path):
            pass

    run(scenario())


def test_a_broker_whose_metadata_is_lost_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            waiting = asyncio.create_task(broker.wait_lost())
            await asyncio.sleep(0)
            assert not waiting.done()
            session = broker.context.controller._session
            assert session is not None
            session.lost.set()
            with pytest.raises(StoreError, match="lost its session"):
                await waiting

    run(scenario())


def test_a_broker_that_cannot_follow_the_metadata_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:

            async def fail(*_: object) -> None:
                raise RuntimeError("a listener is broken")

            broker.context.controller._listeners.append(fail)
            with pytest.raises(StoreError):
                await create_topic(broker, "t")
            with pytest.raises(StoreError, match="a listener is broken"):
                await broker.wait_lost()

    run(scenario())


def test_limits_of_connections_follow_the_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as first:
            await create_topic(broker, "t")
            assert (await first.produce("t", batch(b"x"))).error_code == 0
            await set_config(broker, ResourceType.BROKER, "", max_connections_per_ip="1")
            async with connected(broker) as second:
                assert await second.reader.read() == b""
            await set_config(broker, ResourceType.BROKER, "", max_connections_per_ip="2")
            async with connected(broker) as second:
                assert (await second.produce("t", batch(b"x"))).error_code == 0

    run(scenario())


def test_requests_that_were_accepted_before_a_stop_are_in_the_log(tmp_path: Path) -> None:
    files = TestFiles()

    async def scenario() -> None:
        async with running(tmp_path, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            for _ in range(20):
                client.send(0, 9, produce_request("t", batch(b"x")))
            await until(lambda: partition(broker, "t").log.log_end_offset == 20)
        async with running(tmp_path) as broker:
            assert partition(broker, "t").log.log_end_offset == 20

    run(scenario())
