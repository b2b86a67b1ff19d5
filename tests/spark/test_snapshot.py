"""A snapshot while topics are deleted. Against real brokers it is in test_stream_steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.client.cluster import UnknownTopicError
from penstock.spark import snapshot
from penstock.spark.subscription import Named, Subscribed
from penstock.types import TopicPartition

STAYS, GOES = TopicPartition("stays", 0), TopicPartition("goes", 0)
BOTH = Named(("goes", "stays"))


class Deleting:
    """Metadata still shows the topic so many times after it is gone."""

    def __init__(self, monkeypatch, lag):
        self.lag = lag
        monkeypatch.setattr(snapshot, "find_partitions", self.find)
        monkeypatch.setattr(snapshot, "list_offsets", self.list)

    def find(self, _cluster, _subscription):
        if self.lag:
            self.lag -= 1
            return Subscribed((GOES, STAYS), {}, frozenset())
        return Subscribed((STAYS,), {}, frozenset(("goes",)))

    def list(self, _cluster, asked, isolation_level=0):
        if GOES in asked:
            raise UnknownTopicError("goes")
        return {where: SimpleNamespace(offset=7) for where in asked}


@pytest.mark.parametrize("lag", [0, 1, snapshot.MAX_DELETIONS])
def test_a_topic_that_is_deleted_meanwhile_is_missing(monkeypatch, lag):
    Deleting(monkeypatch, lag)
    taken = snapshot.take_snapshot(None, BOTH, isolation_level=0)
    assert taken.latest == {STAYS: 7}
    assert taken.missing_topics == {"goes"}


def test_it_does_not_look_for_ever(monkeypatch):
    Deleting(monkeypatch, 1_000)
    with pytest.raises(UnknownTopicError):
        snapshot.take_snapshot(None, BOTH, isolation_level=0)
