"""Settings from environment variables: `PENSTOCK_LOG_RETENTION_MS=60000` is `log.retention.ms=60000`.

A variable's name is the setting's in capitals, with dots and dashes as underscores, after `PENSTOCK_`. Penstock's own
settings have the word once: `PENSTOCK_DURABILITY` is `penstock.durability`. The name is looked up in the table; nobody
guesses where the dots were.

A `PENSTOCK_` variable that is no setting is a warning and not an error: Kubernetes makes such variables
(`PENSTOCK_SERVICE_HOST`) for every service with our name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from penstock.broker.settings import BROKER

PREFIX = "PENSTOCK_"

CONTROL_VARIABLES = {
    "PENSTOCK_BOOTSTRAP": "which broker the commands talk to",
    "PENSTOCK_CACHE": "where the tests keep what they fetch",
    "PENSTOCK_DEBUG": "the commands show tracebacks",
    "PENSTOCK_TEST_SESSION": "the test run that a process belongs to",
}
"""Variables that are no settings: other parts of Penstock read them."""


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.removeprefix("penstock.").replace(".", "_").replace("-", "_").upper()


VARIABLES: Mapping[str, str] = {variable_of(row.name): row.name for row in BROKER.values() if not row.dynamic_only}


def settings_of(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings that the environment gives, by variable, and a sentence for each variable that is none."""
    found: dict[str, str] = {}
    warnings: list[str] = []
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in CONTROL_VARIABLES:
            continue
        if variable in VARIABLES:
            found[variable] = environ[variable]
        else:
            warnings.append(f"The environment variable {variable} is no setting and is ignored.{_suggestion(variable)}")
    return found, warnings


def _suggestion(variable: str) -> str:
    close = difflib.get_close_matches(variable, VARIABLES, n=1, cutoff=0.85)
    return f" Did you mean {close[0]}?" if close else ""
