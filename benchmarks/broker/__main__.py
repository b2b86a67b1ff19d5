"""The command line: `python -m benchmarks.broker` from the root of the repository."""

from __future__ import annotations

import sys

from .cells import CELLS, warm_up
from .suite import Suite, run_suite

SUITE = Suite(
    command="python -m benchmarks.broker",
    description="Penstock beside Apache Kafka 4.3.",
    cells=CELLS,
    warm_up=warm_up,
    cold_cells=frozenset(("start", "memory")),
)

if __name__ == "__main__":
    sys.exit(run_suite(SUITE))
