"""Spark's own Kafka connector, in an environment of its own: pyspark 4.0.0 from pip, its jars from Maven.

4.0.0 is the newest version whose jars resolve as a whole. Everything is kept in `.cache/` of the repository, so that
it is fetched once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SPARK_VERSION = "4.0.0"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "spark-connector"
FETCH_TIMEOUT_SECONDS = 900

_WANTED = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.0"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
]


class ConnectorUnavailableError(Exception):
    """Why there is nothing to compare with."""


def fetch() -> tuple[str, str]:
    """The Python that runs it, and its jars, separated by commas."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise ConnectorUnavailableError("Spark's Kafka connector needs Java and Maven")
    return str(_python()), ",".join(sorted(map(str, _jars().glob("*.jar"))))


def _python() -> Path:
    home = CACHE / f"pyspark-{SPARK_VERSION}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", f"pyspark=={SPARK_VERSION}"])
        (home / "complete").touch()
    return python


def _jars() -> Path:
    jars = CACHE / f"jars-{SPARK_VERSION}"
    if not (jars / "complete").exists():
        jars.mkdir(parents=True, exist_ok=True)
        pom = CACHE / "pom.xml"
        pom.write_text(_pom())
        _run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"])
        (jars / "complete").touch()
    return jars


def _pom() -> str:
    """Without what each depends on: Spark has the rest."""
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{nothing_else}</dependency>\n"
        for group, name, version in _WANTED
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion>\n"
        "<groupId>penstock</groupId><artifactId>connector</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS)
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise ConnectorUnavailableError(f"{' '.join(command[:3])} ... failed: {words}")
