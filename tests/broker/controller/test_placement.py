"""Placement: even, spread over racks, and the same for the same chance."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.controller.placement import place
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerRecord


def brokers_in(racks: dict[int, str | None]) -> dict[int, BrokerRecord]:
    return {broker_id: BrokerRecord(broker_id, 1, (), rack) for broker_id, rack in racks.items()}


@given(
    st.dictionaries(st.integers(0, 50), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(),
)
def test_replicas_are_different_live_brokers_and_leaders_are_even(
    racks: dict[int, str | None], count: int, factor: int, seed: int
) -> None:
    brokers = brokers_in(racks)
    factor = min(factor, len(brokers))
    placed = place(brokers, count, factor, random.Random(seed))
    assert placed == place(brokers, count, factor, random.Random(seed))
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert brokers.keys() >= set(replicas)
        assert len({racks[each] for each in replicas}) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[each] for each in brokers) <= 1


def test_the_load_of_one_broker_is_spread_over_all_others() -> None:
    placed = place(brokers_in(dict.fromkeys(range(6))), 60, 2, random.Random(1))
    followers = {replicas[1] for replicas in placed if replicas[0] == 0}
    assert followers == {1, 2, 3, 4, 5}


def test_too_few_brokers_are_named(make_brokers: Callable[..., Image]) -> None:
    for brokers, words in (([], "only 0 brokers are alive"), ([1], "only 1 broker is alive")):
        with pytest.raises(KafkaError, match=words) as caught:
            place(make_brokers(brokers).brokers, 1, 2, random.Random(1))
        assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
