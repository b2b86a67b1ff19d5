"""The relay that stands for a broker which does nothing."""

from __future__ import annotations

from benchmarks.broker.relay import run_relay


def test_every_record_comes_through_after_it_was_sent():
    taken = run_relay("topic", 200, 2_000)
    assert len(taken) == 200
    assert taken[0] > 0
