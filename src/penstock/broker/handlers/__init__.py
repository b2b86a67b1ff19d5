"""What answers each API: one file each, named as in `wire/api`. What is listed here is advertised and done in full."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from penstock.wire import api as apis

MODULES = dict(apis.MODULES)
"""API key -> module; today every API that we can encode is served."""


def load(key: int) -> Callable[..., Any]:
    """The handler of an API."""
    handle: Callable[..., Any] = importlib.import_module(f"{__name__}.{MODULES[key]}").handle
    return handle
