"""Every program in examples/pipelines runs and shows what it says; in this process, whose Spark session they share."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from penstock.spark.pipelines.ready import NAMES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
MAX_LINES = 60

SHOWN = {
    "lake": ["lake is done: 3 rows", "ann: 40", "bob: 20"],
    "live": ["ann: 2 from 2024-05-01T12:00:00.000Z"],
    "mirror": ["partition 0, offset 0: ann book", "partition 0, offset 1: bob lamp"],
    "load": ['1: {"id":"1","item":"book","amount":12.5}', '2: {"id":"2","item":"lamp","amount":40.0}'],
    "upsert": ["('1', 'book', 3.0)"],
    "delta": ["version 1: ['book', 'lamp']"],
}


@pytest.mark.parametrize("name", NAMES)
def test_it_shows_what_it_says(spark, cluster, monkeypatch, capsys, name):
    monkeypatch.setenv("BOOTSTRAP", cluster.bootstrap)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert capsys.readouterr().out.splitlines() == SHOWN[name]


def test_every_ready_pipeline_has_a_short_example_that_is_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NAMES) == set(SHOWN)
    readme = (EXAMPLES.parent / "README.md").read_text()
    for name in NAMES:
        assert f"(pipelines/{name}.py)" in readme
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < MAX_LINES
