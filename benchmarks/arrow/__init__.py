"""`penstock.read` and `penstock.write` beside confluent-kafka, in one run: `python -m benchmarks.arrow` from the root.

How the brokers are started, measured in turn and reported is `benchmarks.broker`'s; here are only cells. Importing it
first also makes the modules of the tests known.
"""

from __future__ import annotations

import benchmarks.broker  # noqa: F401
