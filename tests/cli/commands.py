"""Running `penstock` commands in tests: in process where that is enough, as a process of its own where it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from click.testing import CliRunner, Result

from penstock.cli.main import penstock
from penstock.errors import ConfigError, KafkaError

SOURCE = Path(__file__).resolve().parents[2] / "src"


def run(*arguments: str, bootstrap: str | None = None, stdin: str | bytes | None = None) -> Result:
    """In process. A command's own error (a sentence) is in `exception`; any other is raised."""
    result = CliRunner().invoke(penstock, _with_bootstrap(arguments, bootstrap), input=stdin, prog_name="penstock")
    if result.exception is not None and not isinstance(result.exception, SystemExit | ConfigError | KafkaError):
        raise result.exception
    return result


def start(*arguments: str, bootstrap: str | None = None) -> subprocess.Popen[bytes]:
    """As a process, with pipes; Ctrl-C reaches it also where the tests run in the background, which ignores it."""
    command = [sys.executable, "-m", "penstock.cli.main", *_with_bootstrap(arguments, bootstrap)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    pipe = subprocess.PIPE
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, preexec_fn=heed)


def _with_bootstrap(arguments: tuple[str, ...], bootstrap: str | None) -> list[str]:
    return [*arguments, *(["--bootstrap", bootstrap] if bootstrap else [])]
