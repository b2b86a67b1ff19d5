"""The cells of the table of groups: what is done to a coordinator, and what comes out as figures.

How much work: one to three seconds on Kafka for what is pipelined, 20 seconds for what is paced, and three consumers,
one after the other, for each kind of first message.
"""

from __future__ import annotations

import itertools
import os
import statistics

import raw
from benchmarks.broker.cells import Cell, Figures, latencies
from benchmarks.broker.loader import Load, run_pipelined
from benchmarks.broker.systems import System, Usage
from benchmarks.broker.targets import COMMITS_PER_SECOND, FIRST_MESSAGE_CLIENTS
from benchmarks.broker.topics import temporary_topic
from members import find_every_coordinator

from .first_message import CLIENTS, Client, Reader
from .pace import run_paced
from .requests import HEARTBEAT_ERROR_AT, Commits, heartbeats

IN_FLIGHT = 20
GROUPS = 50
"""About one for each partition of `__consumer_offsets`."""
COMMITS = 40_000
HEARTBEATS = 60_000
MANY_GROUPS = 1_000
PACED_CONNECTIONS = 10
PACED_SECONDS = 20
FIRST_MESSAGE_PARTITIONS = 4
FIRST_MESSAGE_TRIES = 3
_numbers = itertools.count()


def run_commit(system: System, scale: float) -> Figures:
    count = _whole_cycles(COMMITS * scale)
    with temporary_topic(system) as topic:
        commits = Commits(topic, GROUPS)
        load = Load.cycle(commits.frames(), count, commits.error_at, IN_FLIGHT)
        run_pipelined(system.port, [Load.cycle(commits.frames(), GROUPS, commits.error_at, IN_FLIGHT)], IN_FLIGHT)
        with system.measure() as usage:
            run_pipelined(system.port, [load], IN_FLIGHT)
        commits.check(system)
    return _figures(usage, count)


def run_heartbeat(system: System, scale: float) -> Figures:
    count = _whole_cycles(HEARTBEATS * scale)
    with temporary_topic(system) as topic, heartbeats(system, topic, GROUPS) as frames:
        load = Load.cycle(frames, count, HEARTBEAT_ERROR_AT, IN_FLIGHT)
        with system.measure() as usage:
            run_pipelined(system.port, [load], IN_FLIGHT)
    return _figures(usage, count)


def run_paced_commits(system: System, scale: float) -> Figures:
    """10,000 commits a second in all, by 1,000 groups."""
    count = _whole_cycles(COMMITS_PER_SECOND * PACED_SECONDS * scale, MANY_GROUPS)
    with temporary_topic(system) as topic:
        commits = Commits(topic, MANY_GROUPS)
        frames, error_at = commits.frames(), commits.error_at
        shares = [frames[number::PACED_CONNECTIONS] for number in range(PACED_CONNECTIONS)]
        loads = [Load.cycle(share, count // PACED_CONNECTIONS, error_at, IN_FLIGHT) for share in shares]
        with system.measure() as usage:
            taken = run_paced(system.port, loads, COMMITS_PER_SECOND)
        commits.check(system)
    return {
        "commits_per_s": count / usage.wall_s,
        **latencies(taken),
        "cpu_us_per_request": usage.cpu_s * 1e6 / count,
        "cpu_of_a_core": usage.cpu_s / usage.wall_s,
    }


def run_first_message(client: Client, system: System, scale: float) -> Figures:
    tries = max(1, round(FIRST_MESSAGE_TRIES * scale))
    with temporary_topic(system, FIRST_MESSAGE_PARTITIONS) as topic:
        with raw.Connection(system.bootstrap) as connection:
            for partition in range(FIRST_MESSAGE_PARTITIONS):
                raw.produce(connection, topic, raw.batch([b"a message"]), partition)
        figures = {"first_message_ms": _first_message_ms(client, system, topic, tries, is_connected=False)}
        if client.can_be_connected:
            figures["connected_first_message_ms"] = _first_message_ms(client, system, topic, tries, is_connected=True)
    return figures


def _first_message_ms(client: Client, system: System, topic: str, tries: int, is_connected: bool) -> float:
    groups = [f"first-{os.getpid()}-{next(_numbers)}" for _ in range(tries)]
    taken_s = [client.read(Reader(system.bootstrap, topic, group, is_connected)) for group in groups]
    return statistics.median(taken_s) * 1e3


def warm_up(system: System, scale: float) -> None:
    """Kafka makes `__consumer_offsets` when it is first needed, and its compiler needs work that is not timed."""
    find_every_coordinator(system.bootstrap)
    run_commit(system, scale)
    run_heartbeat(system, scale)


def _whole_cycles(count: float, groups: int = GROUPS) -> int:
    """Every group gets its turn as often as any other."""
    return max(1, int(count) // groups) * groups


def _figures(usage: Usage, count: int) -> Figures:
    return {"requests_per_s": count / usage.wall_s, "cpu_us_per_request": usage.cpu_s * 1e6 / count}


def _first_message_cell(name: str) -> Cell:
    client = CLIENTS[name]
    what = f"{client.what}: the first message of a new group"
    return Cell(f"first-{name}", what, lambda system, scale: run_first_message(client, system, scale))


CELLS: list[Cell] = [
    Cell("commit", "OffsetCommit by 50 simple groups, one connection, 20 in flight", run_commit),
    Cell("heartbeat", "Heartbeat of 50 live members, one connection, 20 in flight", run_heartbeat),
    Cell("commit-1000-groups", "1,000 groups, 10,000 commits a second for 20 s", run_paced_commits),
    *map(_first_message_cell, FIRST_MESSAGE_CLIENTS),
]
