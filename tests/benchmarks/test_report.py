"""Figures, targets and the table."""

from __future__ import annotations

import io
import json
import os
import time
from array import array
from pathlib import Path

from benchmarks.broker.cells import CELLS, latencies
from benchmarks.broker.process import cpu_seconds, resident_bytes, started_at
from benchmarks.broker.report import Results, show, show_summary
from benchmarks.broker.sampler import Sampler
from benchmarks.broker.scratch import warm_pages
from benchmarks.broker.targets import Rule, Target, target_of
from rich.console import Console

PRODUCE = next(cell for cell in CELLS if cell.name == "produce-1KB")


def _results(kafka: list[float], penstock: list[float]) -> Results:
    results = Results({})
    for name, values in (("kafka", kafka), ("penstock", penstock)):
        for value in values:
            results.add(PRODUCE, name, {"cpu_us_per_request": value})
    return results


def test_rows_have_medians_and_ratios_and_are_judged_by_their_targets():
    (row,) = _results([100.0, 50.0, 60.0], [12.0, 90.0, 10.0]).rows()
    assert (row.kafka, row.penstock, row.ratio) == (60.0, 12.0, 0.2)
    assert row.is_met is True
    (row,) = _results([60.0], [30.0]).rows()
    assert row.is_met is False


def test_without_kafka_there_is_no_ratio_and_no_verdict():
    (row,) = _results([], [12.0]).rows()
    assert (row.kafka, row.ratio, row.is_met) == (None, None, None)


def test_a_target_for_a_value_needs_no_ratio():
    target = Target(Rule.VALUE_AT_MOST, 60)
    assert target.is_met(59.0, None) is True
    assert target.is_met(61.0, 0.01) is False


def test_throughput_must_reach_kafkas_in_every_cell():
    for cell in CELLS:
        target = target_of(cell.name, "requests_per_s")
        assert target is not None
        assert target.limit >= 0.95


def test_cells_have_different_names():
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def test_the_table_and_the_json_hold_the_figures():
    results = _results([60.0], [30.0])
    text = io.StringIO()
    show(results, Console(file=text, width=140))
    show_summary(results, Console(file=text, width=140))
    assert "produce-1KB" in text.getvalue()
    assert "missed: produce-1KB" in text.getvalue()
    loaded = json.loads(results.to_json())
    assert loaded["medians"][0]["ratio"] == 0.5
    assert loaded["rounds"]["produce-1KB"]["kafka"] == [{"cpu_us_per_request": 60.0}]


def test_percentiles_are_in_microseconds():
    taken = array("q", [number * 1000 for number in range(1, 1001)])
    assert latencies(taken) == {"p50_us": 501.0, "p99_us": 991.0, "p999_us": 1000.0}


def test_the_figures_of_a_process_are_its_own():
    pid = os.getpid()
    before = cpu_seconds(pid)
    assert abs(before - time.process_time()) < 1.0
    sum(range(1_000_000))
    assert cpu_seconds(pid) > before
    assert resident_bytes(pid) > 1 << 20
    assert 0 < started_at(pid) < time.clock_gettime(time.CLOCK_BOOTTIME)


def test_scratch_leaves_nothing_behind(tmp_path: Path):
    warm_pages(tmp_path, 3 << 20)
    assert list(tmp_path.iterdir()) == []


def test_the_sampler_writes_functions_lines_and_stacks(tmp_path: Path):
    sampler = Sampler()
    sampler.stacks[("main.py:main", "log.py:append")] = 3
    sampler.stacks[("main.py:main",)] = 1
    sampler.lines["log.py:append:12"] = 3
    sampler.write(tmp_path / "profile")
    text = (tmp_path / "profile").read_text()
    assert "4 samples" in text
    assert "  75.0 %  log.py:append\n" in text
    assert " 100.0 %  main.py:main\n" in text
    assert (tmp_path / "profile.folded").read_text() == "main.py:main;log.py:append 3\nmain.py:main 1\n"
