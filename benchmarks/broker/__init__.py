"""The broker beside Apache Kafka, in one run: `python -m benchmarks.broker` from the root of the repository.

Both brokers run at the same time and are measured in turn, cell by cell and round by round. The modules that
start them, and that make the untimed requests, are those of the tests: `tests/oracle.py`, `tests/brokers.py` and
`tests/raw.py`. They are no package, so their directory joins the import path here.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests"

if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))
