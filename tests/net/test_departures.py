"""Answers that leave together, first with connections that only count, then over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock.net.departures import MAX_BYTES, MAX_SERVED, SMALL_BYTES, Departures
from penstock.net.server_connection import Pending
from served import framed, run, serving


class Counted:
    def __init__(self, is_broken=False):
        self.departed = 0
        self.is_broken = is_broken

    def depart(self):
        self.departed += 1
        if self.is_broken:
            raise RuntimeError("we are wrong")


def test_they_leave_at_the_end_of_the_turn():
    async def scenario():
        departures, connections = Departures(asyncio.get_running_loop()), [Counted(), Counted()]
        for each in connections:
            departures.add(each, 100)
        assert [each.departed for each in connections] == [0, 0]
        await asyncio.sleep(0)
        assert [each.departed for each in connections] == [1, 1]

    run(scenario())


def test_the_only_one_is_answered_at_once():
    async def scenario():
        departures, first, second = Departures(asyncio.get_running_loop()), Counted(), Counted()
        for connection, at_once in ((first, False), (first, True), (first, True), (second, False), (second, True)):
            before = connection.departed
            departures.add(connection, 100)
            assert (connection.departed > before) == at_once
            await asyncio.sleep(0)
            assert connection.departed == before + 1

    run(scenario())


@pytest.mark.parametrize(("count", "size"), [(MAX_SERVED, 100), (MAX_BYTES // 10_000 + 1, 10_000)])
def test_no_more_than_a_few_wait_for_each_other(count, size):
    async def scenario():
        departures, connections = Departures(asyncio.get_running_loop()), [Counted() for _ in range(count + 1)]
        for each in connections:
            departures.add(each, size)
        assert [each.departed for each in connections] == [1] * count + [0]
        await asyncio.sleep(0)
        assert [each.departed for each in connections] == [1] * (count + 1)

    run(scenario())


def test_nobody_waits_for_many_that_are_answered_in_another_way():
    async def scenario():
        departures, first = Departures(asyncio.get_running_loop()), Counted()
        for _ in range(100):
            departures.count(100)  # nothing is gathered, so nothing is counted
        departures.add(first, 100)
        for _ in range(MAX_SERVED - 2):
            departures.count(100)
        assert first.departed == 0
        departures.count(100)
        assert first.departed == 1

    run(scenario())


def test_one_that_fails_does_not_hold_up_the_others():
    async def scenario():
        departures = Departures(asyncio.get_running_loop())
        connections = [Counted(), Counted(is_broken=True), Counted()]
        for each in connections:
            departures.add(each, 100)
        departures.leave()
        assert [each.departed for each in connections] == [1, 1, 1]

    run(scenario())


@pytest.mark.parametrize(("size", "had_answer"), [(100, False), (SMALL_BYTES + 1, True)])
def test_a_large_request_finds_the_answers_before_it_sent(size, had_answer):
    """Both are there when the loop looks: the second is served in the turn of the first."""

    async def scenario():
        clients: list[socket.socket] = []
        seen: list[bool] = []

        def serve(_connection, frame):
            if bytes(frame[:1]) == b"2":
                seen.append(has_answer(clients[0]))
            return framed(b"answer")

        async with serving(serve) as server:
            clients += await connected(server, 2)
            clients[0].sendall(framed(b"1" * 100))
            clients[1].sendall(framed(b"2" * size))
            await until(lambda: all(map(has_answer, clients)))
            for client in clients:
                assert client.recv(100) == framed(b"answer")
                client.close()
        assert seen == [had_answer]

    run(scenario())


async def connected(server, count):
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    for each in clients:
        each.setblocking(False)
    await until(lambda: len(server.connections) == count)
    return clients


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


def has_answer(client):
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_what_was_answered_is_sent_before_the_server_stops():
    async def scenario():
        stop: list[object] = []

        def serve(_connection, frame):
            asyncio.get_running_loop().call_soon(server.stop)  # in line before the answer
            stop.append(frame)
            return framed(b"answer")

        async with serving(serve) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(framed(b"request"))
            assert await reader.read() == framed(b"answer")
            assert stop

    run(scenario())


def test_who_brings_what_was_waited_for_is_answered_first():
    async def scenario():
        waiting: list[Pending] = []
        clients: list[socket.socket] = []
        seen: list[bool] = []

        def wake():
            waiting[0].finish(framed(b"news"))
            seen.append(has_answer(clients[1]))

        def serve(_connection, frame):
            if bytes(frame) == b"wait":
                waiting.append(Pending())
                return waiting[0]
            asyncio.get_running_loop().call_soon(wake)  # as the purgatory does, in line before the answer
            return framed(b"answer")

        async with serving(serve) as server:
            clients += await connected(server, 2)
            clients[0].sendall(framed(b"wait"))
            await until(lambda: waiting)
            clients[1].sendall(framed(b"bring"))
            await until(lambda: all(map(has_answer, clients)))
        assert seen == [True]

    run(scenario())


def test_a_connection_that_ends_in_the_same_turn_gets_its_answers_before():
    async def scenario():
        def serve(connection, frame):
            if bytes(frame) == b"end":
                asyncio.get_running_loop().call_soon(connection.close, "why")  # in line before the answer
                return Pending()
            return framed(b"answer")

        async with serving(serve) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(framed(b"request") + framed(b"end"))
            assert await reader.read() == framed(b"answer")

    run(scenario())
