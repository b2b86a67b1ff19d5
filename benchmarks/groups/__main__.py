"""The command line: `python -m benchmarks.groups` from the root of the repository."""

from __future__ import annotations

import sys

from benchmarks.broker.suite import Suite, run_suite

from .cells import CELLS, warm_up

AS_KAFKA_SHIPS = {"group.initial.rebalance.delay.ms": "3000"}
"""The oracle of the tests has 0."""

SUITE = Suite(
    command="python -m benchmarks.groups",
    description="Consumer groups of Penstock beside those of Apache Kafka 4.3.",
    cells=CELLS,
    warm_up=warm_up,
    kafka_settings=AS_KAFKA_SHIPS,
)

if __name__ == "__main__":
    sys.exit(run_suite(SUITE))
