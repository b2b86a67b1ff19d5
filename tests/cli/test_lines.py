"""Lines of bytes, however they are cut, and the pauses between them."""

from __future__ import annotations

import io
import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import lines
from penstock.cli.lines import read_lines


class Dribbling(io.BytesIO):
    """Gives a few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


@given(st.binary(max_size=50).map(lambda data: data.replace(b"x", b"\n")))
def test_lines_are_what_split_makes_of_the_whole(data: bytes) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(read_lines(Dribbling(data))) == expected


def test_a_pause_in_a_pipe_is_given_out_once() -> None:
    ours, theirs = os.pipe()
    found = []
    paused = threading.Event()

    def write() -> None:
        os.write(theirs, b"one\ntw")
        paused.wait(30)
        os.write(theirs, b"o\n")
        os.close(theirs)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(ours, "rb") as stream:
        for line in read_lines(stream):
            found.append(line)
            if line is None:
                paused.set()
    writer.join()
    assert [line for line in found if line is not None] == [b"one", b"two"]
    assert None in found


def test_a_file_has_no_pauses(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "lines"
    path.write_bytes(b"x\n" * lines.CHUNK_BYTES)
    with path.open("rb") as stream:
        assert list(read_lines(stream)) == [b"x"] * lines.CHUNK_BYTES
