"""Answers that leave together, first with connections that only count, then over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock.net.departures import MAX_GATHERED, SMALL_BYTES, Departures
from served import framed, run, serving


class Counted:
    def __init__(self):
        self.departed = 0

    def depart(self):
        self.departed += 1


def test_they_leave_at_the_end_of_the_turn():
    async def scenario():
        departures, connections = Departures(asyncio.get_running_loop()), [Counted(), Counted()]
        for each in connections:
            departures.add(each)
        assert [each.departed for each in connections] == [0, 0]
        await asyncio.sleep(0)
        assert [each.departed for each in connections] == [1, 1]

    run(scenario())


def test_no_more_than_a_few_wait_for_each_other():
    async def scenario():
        departures, connections = Departures(asyncio.get_running_loop()), [Counted() for _ in range(MAX_GATHERED + 1)]
        for each in connections:
            departures.add(each)
        assert [each.departed for each in connections] == [1] * MAX_GATHERED + [0]
        await asyncio.sleep(0)
        assert [each.departed for each in connections] == [1] * (MAX_GATHERED + 1)

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
            for _ in range(2):
                clients.append(socket.create_connection(("127.0.0.1", server.port)))
                clients[-1].setblocking(False)
            while len(server.connections) < 2:
                await asyncio.sleep(0)
            clients[0].sendall(framed(b"1" * 100))
            clients[1].sendall(framed(b"2" * size))
            while not all(map(has_answer, clients)):
                await asyncio.sleep(0)
            for client in clients:
                assert client.recv(100) == framed(b"answer")
                client.close()
        assert seen == [had_answer]

    run(scenario())


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
