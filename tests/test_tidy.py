"""The project keeps its own rules: layers point down, files stay small, every advertised API has its handler."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from penstock.broker import handlers
from penstock.wire import api as apis

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "penstock"

LAYERS = {
    "types": 0,
    "errors": 0,
    "env": 1,
    "wire": 2,
    "log": 3,
    "net": 3,
    "metadata": 4,
    "client": 4,
    "broker": 5,
    "spark": 6,
    "console": 6,
    "testing": 6,
    "cli": 7,
}
"""A module may import from lower layers and from its own package; equal layers do not know each other."""

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}

modules = sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The packages of penstock that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "penstock" else [f"penstock.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("penstock.")}
    return found


@pytest.mark.parametrize("path", modules, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    package = package_of(path)
    if package in ("__init__", "__main__", "pyspark_penstock"):
        return
    for imported in imports_of(path) - {package, "__version__"}:
        assert LAYERS[imported] < LAYERS[package], f"{path.name} ({package}) imports {imported}"


@pytest.mark.parametrize("path", modules, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_open_with_what_they_are_and_stay_small(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module opens with a docstring"
    assert text.count("\n") <= MAX_FILE_LINES
    assert path.stem not in VAGUE_NAMES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


def test_every_advertised_api_has_a_declaration_and_a_handler_of_the_same_name():
    for key, name in handlers.MODULES.items():
        assert apis.MODULES[key] == name
        assert callable(handlers.load(key))
        assert apis.load(key).key == key
    files = {path.stem for path in (SOURCE / "wire" / "api").glob("*.py")} - {"__init__"}
    assert files == set(apis.MODULES.values())


def test_nothing_names_a_path_of_one_machine():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *modules, *ROOT.glob("benchmarks/**/*.py")]:
        assert not re.search(r"(?<![\w.])/(work|root|home)/\w", path.read_text()), path


def test_no_unfinished_business_in_the_product():
    for path in modules:
        assert not re.search(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b", path.read_text()), path
