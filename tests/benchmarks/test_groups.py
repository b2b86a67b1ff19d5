"""The requests of the groups' benchmark, and the loader that keeps a pace."""

from __future__ import annotations

import struct

import pytest
from benchmarks.broker.loader import Load, run_pipelined
from benchmarks.broker.targets import FIRST_MESSAGE_CLIENTS, target_of
from benchmarks.groups.cells import CELLS
from benchmarks.groups.first_message import CLIENTS
from benchmarks.groups.pace import run_paced
from benchmarks.groups.requests import COMMIT_VERSION, HEARTBEAT_ERROR_AT, HEARTBEAT_VERSION, Commits

from fake_broker import response_frame, serve

GOOD = struct.pack(">ih", 2, 0)
BAD = struct.pack(">ih", 2, 7)
ERROR_AT = 4


def frame(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


@pytest.mark.parametrize("in_flight", [1, 3, 7])
def test_frames_of_a_cycle_are_sent_in_turn_however_many_are_in_flight(in_flight: int):
    texts = [b"one", b"two", b"six"]
    with serve(lambda _: GOOD) as (port, got):
        run_pipelined(port, [Load.cycle([frame(text) for text in texts], 100, ERROR_AT, in_flight)], in_flight)
    assert got == [texts[number % 3] for number in range(100)]


def test_a_paced_run_sends_everything_and_gives_a_latency_for_each_answer():
    loads = [Load.cycle([frame(b"%d-%d" % (line, each)) for each in range(5)], 20, ERROR_AT, 1) for line in range(3)]
    with serve(lambda _: GOOD) as (port, got):
        taken = run_paced(port, loads, per_second=1_000)
    assert len(taken) == len(got) == 60
    assert sorted(got) == sorted(b"%d-%d" % (line, each) for line in range(3) for each in range(5) for _ in range(4))


def test_a_paced_run_stops_at_an_error_code():
    with serve(lambda _: BAD) as (port, _), pytest.raises(RuntimeError, match="error code 7"):
        run_paced(port, [Load.cycle([frame(b"one")], 10, ERROR_AT, 1)], per_second=1_000)


def test_the_error_code_of_a_commit_stands_where_the_loader_looks():
    commits = Commits("a-topic", 3)
    part = {"partition_index": 0, "error_code": 0x1234}
    data = response_frame("OffsetCommit", COMMIT_VERSION, topics=[{"name": "a-topic", "partitions": [part]}])
    assert struct.unpack_from(">h", data, commits.error_at)[0] == 0x1234


def test_the_error_code_of_a_heartbeat_stands_where_the_loader_looks():
    data = response_frame("Heartbeat", HEARTBEAT_VERSION, error_code=0x1234)
    assert struct.unpack_from(">h", data, HEARTBEAT_ERROR_AT)[0] == 0x1234


def test_commits_have_one_size_whichever_group_they_are_of():
    assert len({len(each) for each in Commits("a-topic", 1_000).frames()}) == 1


def test_every_client_of_the_first_message_has_a_cell_and_a_limit():
    assert set(FIRST_MESSAGE_CLIENTS) == set(CLIENTS)
    assert {cell.name for cell in CELLS} >= {f"first-{name}" for name in CLIENTS}
    assert all(target_of(f"first-{name}", "first_message_ms") for name in CLIENTS)
