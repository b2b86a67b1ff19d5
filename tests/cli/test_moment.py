"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from penstock.cli.moment import parse_duration, parse_moment

NOW = 1_700_000_000_000
OUTSIDE = ["9" * 23, "9" * 5000, "99999999999999d ago", "9" * 400 + "d ago", "1969-12-31", "0001-01-01"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1690000000000", 1_690_000_000_000),
        ("0", 0),
        ("90s ago", NOW - 90_000),
        ("1h ago", NOW - 3_600_000),
        ("1.5 hours ago", NOW - 5_400_000),
        ("2 days", NOW - 172_800_000),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20.500+01:00", NOW + 500),
    ],
)
def test_a_moment_is_found(text: str, expected: int) -> None:
    assert parse_moment(text, NOW) == expected


def test_a_date_without_a_zone_is_local_time() -> None:
    assert parse_moment("2023-11-14", NOW) == int(datetime(2023, 11, 14).timestamp() * 1000)  # noqa: DTZ001


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "-1", "1 fortnight ago", "2023-13-01", "99999-01-01", *OUTSIDE], ids=lambda text: text[:30]
)
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="1h ago"):
        parse_moment(text, NOW)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("90m", 5_400_000), ("1.5h", 5_400_000), ("2 days", 172_800_000), ("P1DT2H", 93_600_000), ("pt0.5s", 500)],
)
def test_a_length_of_time(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "long", "P", "PT", "1h ago", "5", "-1h", "9999999999w", "9" * 30 + "d"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no length of time"):
        parse_duration(text)
