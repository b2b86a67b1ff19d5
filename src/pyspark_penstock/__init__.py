"""Where Spark looks for data sources: in every top-level module whose name begins with `pyspark_`.

Nothing needs to be registered: `.format("penstock")` works wherever this package is installed, with Spark Connect and
in declarative pipelines too.
"""

from __future__ import annotations

from penstock.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
