"""What answers each API: one file each, named as in `wire/api`. What is listed here is advertised and done in full."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from penstock.wire import api as apis

NOT_SERVED: frozenset[int] = frozenset()
"""APIs that we can encode but do not answer yet."""

MODULES = {key: name for key, name in apis.MODULES.items() if key not in NOT_SERVED}
"""API key -> module, of what is advertised."""


def load(key: int) -> Callable[..., Any]:
    """The handler of an API."""
    handle: Callable[..., Any] = _module(key).handle
    return handle


def load_refusal(key: int) -> Callable[..., Any] | None:
    """How the API refuses a whole request, where its response has no error code of its own."""
    return getattr(_module(key), "refuse", None)


def _module(key: int) -> Any:
    return importlib.import_module(f"{__name__}.{MODULES[key]}")
