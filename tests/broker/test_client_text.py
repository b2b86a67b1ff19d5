"""Text of clients in the broker's log: one line, no escapes, not too long."""

from __future__ import annotations

import pytest

from penstock.broker.client_text import MAX_SHOWN, shown


@pytest.mark.parametrize("name", ["readers", "rdkafka-5f0c1d2e", "team.orders:v2/eu@x+1"])
def test_a_plain_name_is_shown_as_it_is(name: str) -> None:
    assert shown(name) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "''"),
        ("two words", "'two words'"),
        ("g\n2026-01-01 ERROR all is lost", r"'g\n2026-01-01 ERROR all is lost'"),
        ("g\n", r"'g\n'"),
        ("\x1b[2Jg", r"'\x1b[2Jg'"),
        ("a\u2028b\u202ec", r"'a\u2028b\u202ec'"),
        ("\udc80", r"'\udc80'"),
    ],
)
def test_what_could_split_or_disguise_a_line_is_quoted_and_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_long_text_is_cut_and_its_length_is_told() -> None:
    assert shown("x" * MAX_SHOWN) == "x" * MAX_SHOWN
    assert shown("x" * 30_000) == f"'{'x' * MAX_SHOWN}'... (30000 characters)"
