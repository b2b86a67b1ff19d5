"""The Spark session of a pipeline: on this machine, or on a cluster that is named by its master.

On a cluster the executors need Penstock too. Where they do not have it, it is sent to them with the job, as a zip of
Python files; what it needs besides (pyarrow, pandas, crc32c, cramjam) must be installed there, or come in an archive of
a whole environment:

    --conf spark.archives=environment.tar.gz#environment --conf spark.pyspark.python=environment/bin/python

A zip holds no compiled modules, so the record kernel in it is the plain Python one; installed on the machines it is
compiled and faster.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.spark.java import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.stopTimeout": "20s",
}
"""Dates of files are in UTC everywhere, the terminal is ours, and a query that waits for a broker does not keep us from
stopping. A project or --conf may say otherwise."""

PACKAGES = ("penstock", "pyspark_penstock")


def open_session(name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """A session with Penstock in it; the caller stops it."""
    spark = spark_session(name, master=master, settings={**DEFAULTS, **settings})
    spark.sparkContext.setLogLevel("ERROR")
    if not str(spark.sparkContext.master).startswith("local"):
        ship(spark)
    return spark


def ship(spark: SparkSession) -> None:
    """Send this Penstock to the executors, now and to those that come later."""
    from penstock.spark.source import PenstockDataSource

    directory = Path(tempfile.mkdtemp(prefix="penstock-ship-"))
    spark.sparkContext.addPyFile(str(zip_packages(directory / "penstock.zip")))
    # Registered after the zip was added, the source takes it along to the executors; found by its name it does not.
    spark.dataSource.register(PenstockDataSource)


def zip_packages(target: Path) -> Path:
    """The Python files of Penstock as one zip, importable as it is."""
    root = Path(penstock.__file__).resolve().parents[1]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                archive.write(path, path.relative_to(root))
    return target
