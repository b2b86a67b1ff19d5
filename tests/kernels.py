"""A compiled module in both its forms: as plain Python, from its source, and compiled where it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import penstock

WIRE = Path(penstock.__file__).parent / "wire"


def forms(installed: ModuleType) -> list[object]:
    """Parameters for a fixture."""
    found: list[object] = [pytest.param(load_source(installed.__name__.rpartition(".")[2]), id="plain")]
    if installed.COMPILED:
        found.append(pytest.param(installed, id="compiled"))
    return found


def load_source(name: str) -> ModuleType:
    """The module as plain Python, whatever is installed."""
    spec = importlib.util.spec_from_file_location(f"{name}_source", WIRE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module
