"""The documents say what is true: links lead somewhere, commands exist, and the README's snippet runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli.main import COMMANDS
from penstock.testing import Cluster

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"^    make ([a-z]+)|`make ([a-z]+)", text, re.MULTILINE):
        assert (target[0] or target[1]) in targets, target
    for command in re.findall(r"^    (?:\.venv/bin/)?penstock ([a-z]+)", text, re.MULTILINE):
        assert command in COMMANDS, command


def test_the_snippet_of_the_readme_runs():
    (snippet,) = re.findall(r"(?:^    from confluent_kafka import Producer\n)(?:    .*\n)+", README, re.MULTILINE)
    code = re.sub(r"^    ", "", snippet, flags=re.MULTILINE)
    with Cluster() as cluster:
        scope: dict[str, object] = {}
        exec(code.replace("127.0.0.1:9092", cluster.bootstrap), scope)
        assert scope["producer"].flush(0) == 0
