"""Incremental fetch sessions: only what changed is asked for and answered (KIP-227)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Code

import raw

FULL_NEW, NO_SESSION = 0, -1


class Session:
    """A consumer's side of one session over a topic of three partitions."""

    def __init__(self, connection: raw.Connection, topic_id: uuid.UUID) -> None:
        self.connection = connection
        self.topic_id = topic_id

    def fetch(
        self, session_id: int, epoch: int, offsets: dict[int, int] | None = None, forget: tuple[int, ...] = ()
    ) -> Any:
        asked = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for partition, offset in (offsets or {}).items()
        ]
        return self.connection.call(
            "Fetch", 17, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
            topics=[{"topic_id": self.topic_id, "partitions": asked}] if asked else [],
            forgotten_topics_data=[{"topic_id": self.topic_id, "partitions": list(forget)}] if forget else [],
        )  # fmt: skip

    def open(self, offsets: dict[int, int]) -> int:
        """A full fetch that begins a session; its id."""
        response = self.fetch(0, FULL_NEW, offsets)
        assert response.error_code == 0
        assert partitions(response) == list(offsets)
        assert response.session_id != 0
        opened: int = response.session_id
        return opened


def partitions(response: Any) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=3)


@pytest.fixture
def session(connection: raw.Connection, topic: str) -> Session:
    return Session(connection, raw.topic_id(connection, topic))


ALL_FROM_0 = {0: 0, 1: 0, 2: 0}


def test_an_incremental_fetch_names_only_what_changed(session: Session, topic: str) -> None:
    id_ = session.open(ALL_FROM_0)
    assert partitions(session.fetch(id_, 1)) == []
    raw.produce(session.connection, topic, raw.batch([b"v"]), partition=1)
    response = session.fetch(id_, 2)
    assert (partitions(response), response.session_id) == ([1], id_)
    assert partitions(session.fetch(id_, 3)) == [1], "it is sent again while the consumer does not move on"
    assert partitions(session.fetch(id_, 4, {1: 1})) == []


def test_a_partition_can_be_added_and_forgotten(session: Session, topic: str) -> None:
    id_ = session.open({0: 0, 1: 0})
    raw.produce(session.connection, topic, raw.batch([b"v"]), partition=2)
    assert partitions(session.fetch(id_, 1)) == []
    assert partitions(session.fetch(id_, 2, {2: 0})) == [2]
    assert partitions(session.fetch(id_, 3, forget=(2,))) == []
    assert partitions(session.fetch(id_, 4)) == []
    assert partitions(session.fetch(id_, 5, {2: 0})) == [2]


def test_a_start_offset_that_moved_is_told(session: Session, topic: str) -> None:
    raw.produce(session.connection, topic, raw.batch([b"v"] * 5))
    id_ = session.open({0: 5, 1: 0})
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    session.connection.call("DeleteRecords", 2, topics=asked, timeout_ms=30_000)
    (answer,) = session.fetch(id_, 1).responses[0].partitions
    assert (answer.partition_index, answer.log_start_offset) == (0, 3)


def test_an_error_is_told_each_time(session: Session) -> None:
    id_ = session.open({0: 0})
    for epoch in (1, 2):
        (answer,) = session.fetch(id_, epoch, {0: 99}).responses[0].partitions
        assert answer.error_code == Code.offset_out_of_range


def test_an_epoch_out_of_turn_is_refused_and_the_session_goes_on(session: Session) -> None:
    id_ = session.open(ALL_FROM_0)
    assert session.fetch(id_, 1).error_code == 0
    wrong = session.fetch(id_, 99)
    assert (Code(wrong.error_code), wrong.session_id) == (Code.invalid_fetch_session_epoch, 0)
    assert session.fetch(id_, 2).error_code == 0


def test_an_unknown_session_is_refused(session: Session) -> None:
    response = session.fetch(12345, 1)
    assert (Code(response.error_code), response.session_id) == (Code.fetch_session_id_not_found, 0)


def test_a_new_full_fetch_ends_the_old_session(session: Session) -> None:
    old = session.open(ALL_FROM_0)
    response = session.fetch(old, FULL_NEW, ALL_FROM_0)
    assert response.error_code == 0
    assert response.session_id not in (0, old)
    assert session.fetch(old, 1).error_code == Code.fetch_session_id_not_found


def test_the_last_epoch_ends_the_session(session: Session) -> None:
    id_ = session.open(ALL_FROM_0)
    response = session.fetch(id_, NO_SESSION)
    assert (response.error_code, response.session_id, partitions(response)) == (0, 0, [])
    assert session.fetch(id_, 1).error_code == Code.fetch_session_id_not_found


def test_without_a_session_all_partitions_are_answered_each_time(session: Session) -> None:
    for _ in range(2):
        response = session.fetch(0, NO_SESSION, ALL_FROM_0)
        assert (response.session_id, partitions(response)) == (0, [0, 1, 2])


def test_an_unknown_topic_id_stays_in_the_session_as_an_error(session: Session) -> None:
    stranger = Session(session.connection, uuid.uuid4())
    response = stranger.fetch(0, FULL_NEW, {0: 0})
    assert response.session_id != 0
    assert response.responses[0].partitions[0].error_code == Code.unknown_topic_id


def test_names_and_ids_do_not_mix_in_one_session(session: Session, topic: str) -> None:
    by_name = session.connection.call("Fetch", 12, **raw.fetch_fields(topic, 0, session_epoch=FULL_NEW))
    assert by_name.session_id != 0
    assert session.fetch(by_name.session_id, 1).error_code == Code.fetch_session_topic_id_error
