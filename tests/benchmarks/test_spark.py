"""What the Spark benchmark makes of its figures; Spark itself is not started here."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from benchmarks.spark.__main__ import Results, verdict


def test_the_median_of_all_rounds_counts():
    results = Results()
    for rate in (1.0, 9.0, 2.0):
        results.add("read 100B", "penstock", rate)
    assert results.median("read 100B", "penstock") == 2.0
    assert results.median("read 100B", "kafka") is None


def test_an_aim_is_met_or_missed_and_without_a_peer_neither():
    assert verdict("read 100B", 2.0) == (">= 2.0", "met")
    assert verdict("read 100B", 1.9) == (">= 2.0", "missed")
    assert verdict("read 100B", None) == (">= 2.0", "")
    assert verdict("to Parquet 100B", 0.1) == ("", "")
