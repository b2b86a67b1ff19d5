"""The benchmarks are a package at the root of the repository; the path to it is all that these tests need."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])

if ROOT not in sys.path:
    # First, because this directory's own name is `benchmarks` too.
    sys.path.insert(0, ROOT)
