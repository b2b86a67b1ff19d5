"""A terminal for tests: a command on a pseudo-terminal, and what appears on it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from cli.commands import SOURCE

COLUMNS = "200"


def on_terminal(*arguments: str, typed: bytes = b"") -> tuple[int, str]:
    """Run `penstock` with a terminal as input, output and errors; its exit status, and everything it showed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "COLUMNS": COLUMNS}
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    if typed:
        os.write(ours, typed)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # Linux: the last process has closed its end
        pass
    os.close(ours)
    return process.wait(30), shown.decode()
