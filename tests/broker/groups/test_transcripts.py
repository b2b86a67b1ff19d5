"""Classic groups by transcript: every file in `transcripts/` is a story that the machine must tell again."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.groups.script import Script

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_group_does_what_the_transcript_says(path: Path) -> None:
    lines = path.read_text().splitlines()
    limits = dict(word.split("=") for word in lines[0].removeprefix("limits:").split()) if "limits:" in lines[0] else {}
    script = Script(**{name: int(value) for name, value in limits.items()})
    told: list[str] = []
    for line in lines:
        if line.startswith(">"):
            continue
        told.append(line)
        command = line.partition("#")[0].strip()
        if command and not line.startswith("limits:"):
            told += [f"> {said}" for said in script.run(command)]
    assert told == lines, f"what it does now is:\n\n{chr(10).join(told)}\n"
