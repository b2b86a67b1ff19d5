"""How this program was started, so that the commands we tell people to type work as they stand.

On the search path it is `penstock`. Otherwise it is what was typed: `.venv/bin/penstock`, or `python -m penstock`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys

NAME = "penstock"


def typed_command() -> str:
    """The words that start this program again."""
    program = sys.argv[0]
    if program.endswith(".py"):  # python -m gives the module's file
        return f"{shlex.quote(sys.orig_argv[0])} -m {NAME}"
    on_path = shutil.which(NAME)
    if on_path is not None and os.path.exists(program) and os.path.samefile(on_path, program):
        return NAME
    return shlex.quote(program) if os.path.basename(program) == NAME else NAME
