"""M02: in one group each message goes to one consumer; every group gets every message; none disturbs another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as library
from brokers import PenstockProcess
from clients import Confluent, Record
from mission.watching import poll_until

MESSAGES = 100
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def filled(broker: PenstockProcess, topic: str, partitions: int) -> None:
    for partition in range(partitions):
        records = [Record(b"%d" % number) for number in range(partition, MESSAGES, partitions)]
        Confluent().produce(broker.bootstrap, topic, records, partition=partition)


@both_protocols
def test_m02_point_to_point(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str], group: str, protocol: str
) -> None:
    topic = topic_on_penstock(partitions=4)
    settings: Any = {"group": group, "options": {"group.protocol": protocol}}
    with (
        library.Consumer(topic, penstock.bootstrap, **settings) as one,
        library.Consumer(topic, penstock.bootstrap, **settings) as two,
    ):
        poll_until(lambda: len(one.assignment) == len(two.assignment) == 2, one, two)
        filled(penstock, topic, 4)
        got: dict[library.Consumer, list[int]] = {one: [], two: []}
        poll_until(lambda: sum(map(len, got.values())) >= MESSAGES, one, two, got=got)
    assert sorted(got[one] + got[two]) == list(range(MESSAGES))
    assert len(got[one]) == len(got[two]) == MESSAGES / 2


@both_protocols
def test_m02_broadcast(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str], group: str, protocol: str
) -> None:
    """Two groups at once, both while the messages come."""
    topic = topic_on_penstock()
    options = {"group.protocol": protocol}
    with (
        library.Consumer(topic, penstock.bootstrap, group=f"{group}-billing", options=options) as billing,
        library.Consumer(topic, penstock.bootstrap, group=f"{group}-shipping", options=options) as shipping,
    ):
        poll_until(lambda: len(billing.assignment) == len(shipping.assignment) == 1, billing, shipping)
        filled(penstock, topic, 1)
        got: dict[library.Consumer, list[int]] = {billing: [], shipping: []}
        poll_until(lambda: min(map(len, got.values())) >= MESSAGES, billing, shipping, got=got)
    assert got[billing] == got[shipping] == list(range(MESSAGES))


def test_m02_groups_do_not_disturb_each_other(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str], group: str
) -> None:
    topic = topic_on_penstock()
    filled(penstock, topic, 1)
    with (
        library.Consumer(topic, penstock.bootstrap, group=f"{group}-slow", commit="manual") as slow,
        library.Consumer(topic, penstock.bootstrap, group=f"{group}-fast", commit="manual") as fast,
    ):
        assert [next(slow).offset for _ in range(3)] == [0, 1, 2]
        slow.commit()
        assert [next(fast).offset for _ in range(MESSAGES)] == list(range(MESSAGES))
        fast.commit()
        assert list(slow.committed().values()) == [3]
        assert next(slow).offset == 3
