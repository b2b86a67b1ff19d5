"""M08: flush after so many messages or so long; by default the operating system decides.

What a flush moves is the recovery point: everything before it is on the disk.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import raw
from brokers import PenstockProcess
from in_process import running
from penstock.broker.broker import Broker


async def produce(broker: Broker, topic: str, batches: list[bytes]) -> None:
    """With a client in a thread, as the broker has this one."""
    _, host, port = broker.addresses[0]

    def send() -> None:
        with raw.Connection(f"{host}:{port}") as connection:
            raw.create_topic(connection, topic)
            for batch in batches:
                assert raw.produce(connection, topic, batch).error_code == 0

    await asyncio.to_thread(send)


async def wait_for_recovery_point(broker: Broker, topic: str, offset: int) -> None:
    log = broker.context.replicas.by_name[topic][0].log
    while log.recovery_point < offset:
        await asyncio.sleep(0.01)


def test_m08_flush_after_so_many_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "log.flush.interval.messages=10") as broker:
            await produce(broker, "t", [raw.batch([b"v"])] * 25)
            await wait_for_recovery_point(broker, "t", 20)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_m08_flush_after_so_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "log.flush.interval.ms=200") as broker:
            await produce(broker, "t", [raw.batch([b"v"] * 7)])
            await wait_for_recovery_point(broker, "t", 7)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_m08_by_default_nothing_is_flushed_by_the_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await produce(broker, "t", [raw.batch([b"v"])] * 25)
            assert broker.context.replicas.by_name["t"][0].log.recovery_point == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_m08_what_was_acknowledged_survives_kill_9_without_a_flush(tmp_path: Path) -> None:
    """The operating system has it; only a power cut needs more, and that is what replicas or a flush are for."""
    with PenstockProcess(tmp_path) as broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, "t")
            for number in range(200):
                assert raw.produce(connection, "t", raw.batch([b"%d" % number])).error_code == 0
        broker.kill()
        broker.start()
        with raw.Connection(broker.bootstrap) as connection:
            assert raw.values(raw.fetch(connection, "t").records) == [b"%d" % number for number in range(200)]
            assert raw.produce(connection, "t", raw.batch([b"next"])).base_offset == 200
