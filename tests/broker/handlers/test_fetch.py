"""Fetch as a consumer meets it: when it waits, when it is woken, and what a session tells."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from in_process import (
    LONG_WAIT_MS,
    Client,
    batch,
    connected,
    create_topic,
    fetch_request,
    partition,
    produce_request,
    run,
    running,
    until,
)
from penstock.errors import ErrorCode
from penstock.wire.api.fetch import FetchRequest

FETCH = (1, 12)


async def fetch(client: Client, request: FetchRequest) -> Any:
    return await client.call(*FETCH, request)


def told(response: Any) -> dict[int, tuple[int, int]]:
    """Partition -> (high watermark, bytes)."""
    return {
        each.partition_index: (each.high_watermark, len(each.records or b""))
        for topic in response.responses
        for each in topic.partitions
    }


def test_a_consumer_is_woken_by_a_message_to_any_of_its_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as producer, connected(broker) as consumer:
            await create_topic(broker, "t", 50)
            for index in (0, 31, 49):
                ends = {each: partition(broker, "t", each).log.log_end_offset for each in range(50)}
                consumer.send(*FETCH, fetch_request({"t": ends}, max_wait_ms=LONG_WAIT_MS))
                await until(lambda: partition(broker, "t", 49).waiters)
                await producer.produce("t", batch(b"x"), index=index)
                sizes = {each: size for each, (_, size) in told(await consumer.receive()).items() if size}
                assert list(sizes) == [index]
            assert not any(partition(broker, "t", each).waiters for each in range(50))

    run(scenario())


def test_a_message_that_comes_with_the_fetch_in_one_packet_is_seen(tmp_path: Path) -> None:
    """Fetch and produce of one connection in one read, and in either order: no wake-up is lost."""

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            for number in range(50):
                client.send(*FETCH, fetch_request({"t": {0: number}}, max_wait_ms=LONG_WAIT_MS))
                client.send(0, 9, produce_request("t", batch(b"x")))
                assert told(await client.receive())[0][0] == number + 1
                assert (await client.receive()).responses[0].partition_responses[0].base_offset == number

    run(scenario())


def test_many_consumers_of_one_partition_are_all_woken_by_one_message(tmp_path: Path) -> None:
    async def wait(broker: Any) -> int:
        async with connected(broker) as consumer:
            return int((await consumer.fetch("t", max_wait_ms=LONG_WAIT_MS)).high_watermark)

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as producer:
            await create_topic(broker, "t")
            waiting = [asyncio.create_task(wait(broker)) for _ in range(40)]
            await until(lambda: len(partition(broker, "t").waiters) == 40)
            await producer.produce("t", batch(b"x"))
            assert await asyncio.gather(*waiting) == [1] * 40

    run(scenario())


def test_too_few_bytes_are_told_at_the_deadline(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as producer, connected(broker) as consumer:
            await create_topic(broker, "t")
            await producer.produce("t", batch(b"little"))
            answer = await consumer.fetch("t", max_wait_ms=20, min_bytes=1_000_000)
            assert len(answer.records) > 0
            assert broker.context.metrics.fetches_expired == 1

    run(scenario())


def test_an_error_on_one_partition_answers_for_all_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            wanted = fetch_request({"t": {0: 0, 7: 0}}, max_wait_ms=LONG_WAIT_MS)
            answer = await fetch(client, wanted)
            codes = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
            assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    run(scenario())


def test_a_consumer_that_goes_away_stops_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            async with connected(broker) as client:
                client.send(*FETCH, fetch_request({"t": {0: 0}}, max_wait_ms=LONG_WAIT_MS))
                await until(lambda: partition(broker, "t").waiters)
            await until(lambda: not partition(broker, "t").waiters)

    run(scenario())


def test_a_small_limit_serves_the_partitions_of_a_session_in_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t", 3)
            for index in range(3):
                await client.produce("t", batch(b"x" * 500), index=index)
            wanted = {"t": dict.fromkeys(range(3), 0)}
            first = await fetch(client, fetch_request(wanted, max_bytes=600, session=(0, 0)))
            served = [[index for index, (_, size) in told(first).items() if size]]
            for epoch in (1, 2, 3):
                answer = await fetch(client, fetch_request({}, max_bytes=600, session=(first.session_id, epoch)))
                served.append([index for index, (_, size) in told(answer).items() if size])
            assert served == [[0], [1], [2], [0]]

    run(scenario())


def test_a_session_tells_only_news_and_remembers_it_across_a_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as producer, connected(broker) as client:
            await create_topic(broker, "t", 3)
            opened = await fetch(client, fetch_request({"t": dict.fromkeys(range(3), 0)}, session=(0, 0)))
            assert told(opened) == dict.fromkeys(range(3), (0, 0))
            session_id = opened.session_id
            client.send(*FETCH, fetch_request({}, session=(session_id, 1), max_wait_ms=LONG_WAIT_MS))
            await until(lambda: partition(broker, "t", 1).waiters)
            await producer.produce("t", batch(b"x"), index=1)
            news = told(await client.receive())
            assert list(news) == [1]
            moved = fetch_request({"t": {1: 1}}, session=(session_id, 2))
            assert told(await fetch(client, moved)) == {}
            await producer.produce("t", batch(b"x"), index=2)
            quiet = fetch_request({}, session=(session_id, 3), max_wait_ms=LONG_WAIT_MS)
            assert list(told(await fetch(client, quiet))) == [2]

    run(scenario())


def test_a_session_that_forgets_everything_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            opened = await fetch(client, fetch_request({"t": {0: 0}}, session=(0, 0)))
            forget = fetch_request({}, session=(opened.session_id, 1), forgotten={"t": [0]}, max_wait_ms=LONG_WAIT_MS)
            answer = await fetch(client, forget)
            assert (answer.session_id, answer.error_code, told(answer)) == (0, 0, {})
            assert len(broker.context.sessions) == 0

    run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
def test_a_busy_producer_and_a_consumer_that_follows_it_miss_nothing(tmp_path: Path, acks: int) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as producer, connected(broker) as consumer:
            await create_topic(broker, "t")

            async def produce() -> None:
                for number in range(300):
                    await producer.produce("t", batch(b"%d" % number), acks=acks)

            producing = asyncio.create_task(produce())
            offset = 0
            while offset < 300:
                offset = (await consumer.fetch("t", offset, max_wait_ms=LONG_WAIT_MS)).high_watermark
            await producing

    run(scenario())
