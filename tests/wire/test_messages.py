"""Every message in every version: what is encoded decodes to the same, byte for byte and to the last byte."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages import any_message, every_message, name_of
from penstock.errors import MalformedError
from penstock.wire.compile import RESPONSE_OBJECT_BUDGET, codec, encode
from penstock.wire.schema import layout_of

EVERY = pytest.mark.parametrize(("cls", "version"), list(every_message()), ids=name_of)


@EVERY
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_a_message_reads_back_as_it_was_written(cls, version, chance):
    message = any_message(chance, cls, version)
    data = encode(message, version)
    for buffer in (bytes(data), memoryview(data)):
        again, end = codec(cls, version).decode(buffer, 0, RESPONSE_OBJECT_BUDGET)
        assert again == message
        assert end == len(data)
    assert encode(again, version) == data


@EVERY
def test_a_message_cut_short_anywhere_is_malformed(cls, version):
    data = memoryview(encode(any_message(Random(version), cls, version), version))
    decode = codec(cls, version).decode
    for size in range(len(data)):
        with pytest.raises(MalformedError):
            decode(data[:size], 0, RESPONSE_OBJECT_BUDGET)


@EVERY
def test_a_message_starts_anywhere_in_a_buffer(cls, version):
    message = any_message(Random(version + 1), cls, version)
    data = encode(message, version)
    assert codec(cls, version).decode(b"before" + data, 6, RESPONSE_OBJECT_BUDGET) == (message, 6 + len(data))


@EVERY
def test_the_defaults_can_be_sent(cls, version):
    message = cls()
    for field in layout_of(cls).fields:
        if version in field.versions and version not in field.nullable and getattr(message, field.name) is None:
            assert field.tag is not None, f"{field.name} is null by default but not nullable in version {version}"
    again, _ = codec(cls, version).decode(encode(message, version), 0, RESPONSE_OBJECT_BUDGET)
    assert again == message
