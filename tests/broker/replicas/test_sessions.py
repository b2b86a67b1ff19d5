"""Fetch sessions by themselves: ids and epochs, who is pushed out, and what is remembered."""

from __future__ import annotations

import random

import pytest

from penstock.broker.replicas.sessions import EVICTION_MS, UNSENT, FetchPartition, FetchSession, FetchSessions
from penstock.errors import ErrorCode, KafkaError

LAST_EPOCH = 2**31 - 1


def sessions(capacity: int = 3) -> FetchSessions:
    return FetchSessions(capacity, random.Random(1))


def opened(cache: FetchSessions, size: int, now_ms: int = 0) -> FetchSession:
    session = cache.open(size, now_ms, False)
    assert session is not None
    session.update([FetchPartition("t", b"", index) for index in range(size)], ())
    return session


def refusal(cache: FetchSessions, session_id: int, epoch: int, uses_topic_ids: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        cache.resume(session_id, epoch, 0, uses_topic_ids)
    return refused.value.code


def test_each_request_must_bring_the_next_epoch() -> None:
    cache = sessions()
    session = opened(cache, 1)
    for epoch in (1, 2, 3):
        assert cache.resume(session.session_id, epoch, 0, False) is session
    for wrong in (3, 5, 0):
        assert refusal(cache, session.session_id, wrong) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.session_id, 4, 0, False) is session


def test_the_epoch_after_the_last_is_1() -> None:
    cache = sessions()
    session = opened(cache, 1)
    session.epoch = LAST_EPOCH
    cache.resume(session.session_id, LAST_EPOCH, 0, False)
    assert session.epoch == 1


def test_names_and_ids_are_not_mixed_and_the_refusal_uses_up_no_epoch() -> None:
    cache = sessions()
    session = opened(cache, 1)
    assert refusal(cache, session.session_id, 1, uses_topic_ids=True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.resume(session.session_id, 1, 0, False) is session


def test_a_session_that_was_closed_is_not_found() -> None:
    cache = sessions()
    session = opened(cache, 1)
    cache.close(session.session_id)
    cache.close(session.session_id)
    assert refusal(cache, session.session_id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_cache_opens_no_session_while_all_are_young() -> None:
    cache = sessions()
    for _ in range(3):
        opened(cache, 1)
    assert cache.open(100, EVICTION_MS, False) is None
    assert len(cache) == 3


def test_the_session_that_was_idle_longest_goes_first() -> None:
    cache = sessions()
    first, second, third = (opened(cache, 1) for _ in range(3))
    cache.resume(first.session_id, 1, 10, False)
    opened(cache, 1, EVICTION_MS + 1)
    assert refusal(cache, second.session_id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(third.session_id, 1, EVICTION_MS, False) is third


def test_a_large_session_pushes_out_the_smallest_old_one() -> None:
    cache = sessions()
    large, small, middle = opened(cache, 9), opened(cache, 2), opened(cache, 5)
    for session in (large, small, middle):
        cache.resume(session.session_id, 1, EVICTION_MS, False)  # none is idle
    later = EVICTION_MS + 1
    assert cache.open(2, later, False) is None
    opened(cache, 3, later)
    assert refusal(cache, small.session_id, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(middle.session_id, 2, later, False) is middle


def test_capacity_0_does_without_sessions() -> None:
    assert sessions(0).open(5, 0, False) is None


def test_an_update_keeps_what_the_client_was_told_and_the_place_in_the_row() -> None:
    session = opened(sessions(), 3)
    session.partitions["t", 1].sent_high_watermark = 7
    changed = FetchPartition("t", b"", 1)
    changed.fetch_offset = 42
    session.update([changed, FetchPartition("u", b"", 0)], [("t", 2), ("never", 0)])
    assert list(session.partitions) == [("t", 0), ("t", 1), ("u", 0)]
    assert session.partitions["t", 1].fetch_offset == 42
    assert session.partitions["t", 1].sent_high_watermark == 7
    assert session.partitions["u", 0].sent_high_watermark == UNSENT


def test_a_partition_that_gave_data_goes_to_the_end_as_it_is_now() -> None:
    """An older answer may be on its way while a newer request has changed the partition, or forgotten it."""
    session = opened(sessions(), 3)
    old = session.partitions["t", 0]
    new = FetchPartition("t", b"", 0)
    session.update([new], ())
    session.to_end(old)
    assert list(session.partitions) == [("t", 1), ("t", 2), ("t", 0)]
    assert session.partitions["t", 0] is new
    session.update((), [("t", 0)])
    session.to_end(old)
    assert ("t", 0) not in session.partitions
