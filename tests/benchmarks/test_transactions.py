"""The transactions' benchmark: its requests, its driver, and every cell once on Penstock."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from benchmarks.broker.systems import System
from benchmarks.broker.targets import TRANSACTION_CELLS, target_of
from benchmarks.transactions import cells, java
from benchmarks.transactions.cells import CELLS, Produce, Small, begin, check_committed
from benchmarks.transactions.frames import (
    ADD_VERSION,
    END_ERROR_AT,
    END_VERSIONS,
    SmallTransactions,
    Step,
    add_error_at,
)
from benchmarks.transactions.producers import confluent_producers
from benchmarks.transactions.steps import CONCURRENT_TRANSACTIONS, run_steps

import oracle
import raw
from brokers import PenstockProcess
from fake_broker import response_frame, serve

ERROR_AT = 4


def answer(code: int) -> bytes:
    return struct.pack(">ih", 2, code)


def step(text: bytes) -> Step:
    return Step(struct.pack(">i", len(text)) + text, ERROR_AT)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    found = System("penstock", tmp_path_factory.mktemp("transactions"), PenstockProcess)
    found.start()
    yield found
    found.node.stop()


def test_steps_are_sent_in_order_on_every_connection():
    with serve(lambda _: answer(0)) as (port, got):
        retries = run_steps(port, [[step(b"a1"), step(b"a2"), step(b"a3")], [step(b"b1")]])
    assert retries == 0
    assert [each for each in got if each.startswith(b"a")] == [b"a1", b"a2", b"a3"]
    assert got.count(b"b1") == 1


def test_a_step_that_comes_too_early_is_sent_again_and_counted():
    codes = iter([CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS, 0, 0])
    with serve(lambda _: answer(next(codes))) as (port, got):
        assert run_steps(port, [[step(b"one"), step(b"two")]]) == 2
    assert got == [b"one", b"one", b"one", b"two"]


def test_any_other_error_ends_the_run():
    with serve(lambda _: answer(7)) as (port, _), pytest.raises(RuntimeError, match="error code 7"):
        run_steps(port, [[step(b"one")]])


def test_the_error_codes_stand_where_the_driver_looks():
    part = {"partition_index": 0, "partition_error_code": 0x1234}
    topics = [{"name": "a-topic", "results_by_partition": [part]}]
    added = response_frame("AddPartitionsToTxn", ADD_VERSION, results_by_topic_v3_and_below=topics)
    assert struct.unpack_from(">h", added, add_error_at("a-topic"))[0] == 0x1234
    for version, end_version in END_VERSIONS.items():
        ended = response_frame("EndTxn", end_version, error_code=0x1234)
        assert struct.unpack_from(">h", ended, END_ERROR_AT[version])[0] == 0x1234


@pytest.mark.parametrize(("version", "requests"), [(1, 3), (2, 2)])
def test_a_transaction_has_the_requests_of_its_version(version: int, requests: int):
    transactions = SmallTransactions(version, "an-id", 7, 3, "a-topic", 0)
    assert len(list(transactions.steps(5))) == 5 * requests


@pytest.mark.parametrize("version", [1, 2])
def test_frames_that_were_made_beforehand_are_transactions_for_a_broker(system: System, version: int):
    with raw.Connection(system.bootstrap) as connection:
        raw.create_topic(connection, f"made-{version}")
    transactions = begin(system, f"made-{version}", version, f"made-{version}", 0)
    assert run_steps(system.port, [list(transactions.steps(4))]) == 0
    check_committed(system, f"made-{version}", 1, 8)
    with raw.Connection(system.bootstrap) as connection:
        batches = raw.batches(raw.fetch(connection, f"made-{version}", isolation_level=1).records)
    assert [each.is_control_batch for each in batches] == [False, True] * 4
    assert [each.producer_epoch for each in batches[::2]] == [transactions.epoch + (version - 1) * n for n in range(4)]


PRODUCE = Produce(100, 4_000, 2, confluent_producers)


@pytest.mark.parametrize("run", [Small(1, 40, connections=2).run, Small(2, 40).run, PRODUCE.run])
def test_a_cell_runs_and_checks_what_it_wrote(system: System, run: Callable[[System, float], dict[str, float]]):
    assert all(figure >= 0 for figure in run(system, 1.0).values())


@pytest.mark.slow
@pytest.mark.oracle
def test_the_cell_with_kafkas_own_producers_runs(system: System):
    if not java.is_there():
        pytest.skip("there is no javac or no mvn here")
    if reason := oracle.why_unavailable():
        pytest.skip(reason)
    figures = Produce(100, 2_000, 2, java.java_producers).run(system, 1.0)
    assert figures["transactional_client_cpu_us_per_1000"] > 0


def test_a_topic_is_copied_with_its_offsets_in_the_transactions(system: System):
    figures = cells.run_copy(system, 0.02)
    assert figures["copied_messages_per_s"] > 0
    assert 1 <= figures["messages_per_transaction"] <= 1_000


def test_what_must_be_reached_has_a_cell_and_a_limit():
    names = {cell.name for cell in CELLS}
    assert names >= set(TRANSACTION_CELLS)
    assert all(target_of(name, "cpu_us_per_transaction") for name in TRANSACTION_CELLS)
    for name in (each for each in names if each.startswith("transactional-")):
        assert target_of(name, "of_idempotent")
        assert target_of(name, "transactional_messages_per_s")
