"""Frames that real clients and Apache Kafka exchanged: decoded to the last byte, and encoded back the same.

The project's own were recorded with `tests/record_frames.py`. A larger set is used where it is beside the repository.
"""

from __future__ import annotations

from collections import Counter

import pytest

from messages import OWN_FRAMES, SHARED_FRAMES, body_of, golden_frames
from penstock.wire.compile import REQUEST_OBJECT_BUDGET, RESPONSE_OBJECT_BUDGET, codec

SETS = [
    pytest.param(OWN_FRAMES, id="own"),
    pytest.param(
        SHARED_FRAMES,
        id="shared",
        marks=pytest.mark.skipif(not SHARED_FRAMES.exists(), reason="no larger set beside the repository"),
    ),
]


@pytest.mark.parametrize("path", SETS)
def test_every_frame_decodes_to_the_last_byte_and_encodes_back_the_same(path):
    frames = golden_frames(path)
    assert len(frames) > 100
    for frame in frames:
        cls, version, start = body_of(frame)
        data, where = frame["frame"], f"{cls.__name__} v{version} of {frame['client']}"
        budget = REQUEST_OBJECT_BUDGET if frame["direction"] == "request" else RESPONSE_OBJECT_BUDGET
        message, end = codec(cls, version).decode(memoryview(data), start, budget)
        assert end == len(data), where
        out = bytearray(data[:start])
        codec(cls, version).encode(message, out, [])
        assert out == data, where


def test_the_own_frames_come_from_every_kind_of_client():
    clients = Counter(frame["client"] for frame in golden_frames(OWN_FRAMES))
    assert clients.keys() == {"confluent", "kafka-python", "aiokafka", "kcat", "java"}
    assert OWN_FRAMES.stat().st_size < 300_000
