"""Messages as lines of JSON: what is written is read back to the same bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.message_json import Message, from_json, to_json
from penstock.types import TopicPartition
from penstock.wire.record import Record

maybe_bytes = st.none() | st.binary() | st.text().map(str.encode)
headers = st.lists(st.tuples(st.text(), maybe_bytes)).map(tuple)


@given(maybe_bytes, maybe_bytes, headers, st.integers(0, 2**53))
def test_a_message_survives_the_way_through_json(key, value, headers, timestamp) -> None:  # type: ignore[no-untyped-def]
    line = to_json(TopicPartition("t", 3), Record(9, timestamp, key, value, headers))
    assert line.isprintable()
    assert from_json(line.encode()) == Message(value, key, headers, timestamp, 3)


def test_bytes_that_are_no_text_are_marked() -> None:
    fields = json.loads(to_json(TopicPartition("t", 0), Record(0, 0, b"\xff", b"plain", (("h", b"\xfe"),))))
    assert (fields["key"], fields["key_encoding"]) == ("/w==", "base64")
    assert "value_encoding" not in fields
    assert fields["headers"] == [{"key": "h", "value": "/g==", "value_encoding": "base64"}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", 'no "value"'),
        (b'{"value": "x", "value_encoding": "hex"}', "only"),
        (b'{"value": "%%", "value_encoding": "base64"}', "not base64"),
        (b'{"value": "x", "partition": "1"}', "whole number"),
        (b'{"value": "x", "timestamp": true}', "whole number"),
        (b'{"value": "x", "headers": ["h"]}', "a header"),
        (b'{"value": "x", "headers": 5}', "a header"),
        (b'{"value": "x", "timestamp": 99999999999999999999999}', "is not between -1 and"),
        (b'{"value": "x", "partition": -1}', "is not between 0 and"),
        (b'{"value": "x", "timestamp": %s}' % (b"9" * 5000), "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value": "\\ud800"}', r"\\ud800, one half of a character"),
        (b'{"value": {"a": "\\udfff"}}', r"\\udfff, one half of a character"),
        (b'{"value": "x", "headers": {"\\ud800": "x"}}', "one half of a character"),
        (b'{"vlaue": "x"}', 'no field "vlaue"; perhaps "value" is meant'),
        (b'{"value": "x", "qqqq": 1}', 'no field "qqqq"; there are .*, key, value'),
        (b'{"value": "x", "headers": [{"key": "h", "val": "x"}]}', 'a header has no field "val"; perhaps "value"'),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_message_is_said(line: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_json(line)
