"""Consumer groups by transcript: every file in `consumer_transcripts/` is a story that the machine must tell again."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.groups.consumer_script import ConsumerScript

TRANSCRIPTS = sorted((Path(__file__).parent / "consumer_transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_group_does_what_the_transcript_says(path: Path) -> None:
    lines = path.read_text().splitlines()
    script = ConsumerScript()
    told: list[str] = []
    for line in lines:
        if line.startswith(">"):
            continue
        told.append(line)
        command = line.partition("#")[0].strip()
        if command:
            told += [f"> {said}" for said in script.run(command)]
    assert told == lines, f"what it does now is:\n\n{chr(10).join(told)}\n"
