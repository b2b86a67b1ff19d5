"""The command line: `python -m benchmarks.arrow` from the root of the repository."""

from __future__ import annotations

import sys

from benchmarks.broker.suite import Suite, run_suite

from .cells import CELLS, warm_up

SUITE = Suite(
    command="python -m benchmarks.arrow",
    description="Topics as Arrow, read and written, beside confluent-kafka's consume() and produce().",
    cells=CELLS,
    warm_up=warm_up,
)

if __name__ == "__main__":
    sys.exit(run_suite(SUITE))
