"""What a person sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.output import escape_control, human_bytes, plural


@given(st.text())
def test_whatever_is_escaped_can_be_printed(text: str) -> None:
    assert escape_control(text).isprintable()


def test_text_stays_as_it_is_and_control_characters_are_shown() -> None:
    assert escape_control("größe 日本") == "größe 日本"
    assert escape_control("\x1b[31m\n\t\x9b\u202e\U000e0001") == "\\x1b[31m\\n\\t\\x9b\\u202e\\U000e0001"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5.0 GiB"), (2**51, "2048.0 TiB")]
)
def test_sizes_have_units(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_one_is_singular() -> None:
    assert [plural(0, "topic"), plural(1, "topic"), plural(1234, "topic")] == ["0 topics", "1 topic", "1,234 topics"]
