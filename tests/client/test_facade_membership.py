"""Where a consumer begins in the partitions that it is given, with librdkafka's answers made up."""

from __future__ import annotations

from typing import Any, Self

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.client.facade.client_error import ClientError
from penstock.client.facade.consumer_settings import ConsumerSettings, checked_settings
from penstock.client.facade.membership import EARLIEST_TIMESTAMP, Membership

NEVER_COMMITTED = -1001


class FakeRaw:
    """librdkafka's consumer: answers with what it is given, and remembers what it is told to take."""

    def __init__(self, committed: dict[int, int | KafkaError], starts: dict[int, int] | None = None) -> None:
        self._committed = committed
        self._starts = starts
        self.taken: dict[int, int] | None = None

    def subscribe(self, _topics: list[str], on_assign: Any, **_others: Any) -> None:
        self.on_assign = on_assign

    def give(self, *numbers: int) -> None:
        self.on_assign(self, [confluent_kafka.TopicPartition("t", number) for number in numbers])

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:
        return [_Answer(each.partition, self._committed[each.partition]) for each in partitions]

    def offsets_for_times(self, partitions: list[Any], timeout: float) -> list[Any]:
        assert {each.offset for each in partitions} == {EARLIEST_TIMESTAMP}
        if self._starts is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [_Answer(each.partition, self._starts[each.partition]) for each in partitions]

    def assign(self, partitions: list[Any]) -> None:
        self.taken = {each.partition: each.offset for each in partitions}


class _Answer(confluent_kafka.TopicPartition):  # type: ignore[misc]
    """A partition with an offset or with an error, which nothing but librdkafka can set on its own kind."""

    def __new__(cls, partition: int, found: int | KafkaError) -> Self:
        return super().__new__(cls, "t", partition)

    def __init__(self, partition: int, found: int | KafkaError) -> None:
        super().__init__("t", partition, found if isinstance(found, int) else NEVER_COMMITTED)
        self.found = found

    @property
    def error(self) -> KafkaError | None:
        return None if isinstance(self.found, int) else self.found


def _subscribed(raw: FakeRaw, **settings: Any) -> None:
    given: ConsumerSettings = settings  # type: ignore[assignment]
    membership = Membership(raw, checked_settings(given), lambda _gone: None, lambda _gone: None)
    membership.subscribe(["t"])


def test_a_partition_begins_where_the_group_was_or_else_at_the_earliest_offset():
    raw = FakeRaw({0: 17, 1: NEVER_COMMITTED}, starts={1: 5})
    _subscribed(raw)
    raw.give(0, 1)
    assert raw.taken == {0: 17, 1: 5}


def test_librdkafka_asks_for_the_earliest_offset_itself_when_no_broker_tells_it_in_time():
    raw = FakeRaw({0: NEVER_COMMITTED})
    _subscribed(raw)
    raw.give(0)
    assert raw.taken == {0: confluent_kafka.OFFSET_BEGINNING}


def test_librdkafka_takes_the_partitions_itself_when_what_the_group_remembers_is_not_known():
    raw = FakeRaw({0: 17, 1: KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)}, starts={})
    _subscribed(raw)
    raw.give(0, 1)
    assert raw.taken is None


def test_a_position_that_is_not_known_is_never_taken_for_none_at_all():
    raw = FakeRaw({0: KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)})
    _subscribed(raw, start="latest")
    with pytest.raises(ClientError, match="not known"):
        raw.give(0)
    assert raw.taken is None
