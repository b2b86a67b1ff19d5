"""Waiting fetches: woken once, by enough bytes, by a change or by the deadline, and by nothing that they have seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.purgatory import Purgatory, Waiter


class Place:
    """All that purgatory asks of a partition, and of its log."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self.log = self
        self.high_watermark = 0
        self.last_stable_offset = 0

    @property
    def is_unstable(self) -> bool:
        return self.last_stable_offset < self.high_watermark


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def wait(
    purgatory: Purgatory,
    places: list[Place],
    missing_bytes: int = 1,
    timeout_ms: int = 60_000,
    is_committed: bool = False,
) -> tuple[Waiter, list[bool]]:
    """The waiter, and what it was told: whether it expired."""
    told: list[bool] = []
    waiter = Waiter(missing_bytes, places, told.append, is_committed)  # type: ignore[arg-type]
    purgatory.wait(waiter, timeout_ms)
    return waiter, told


def in_loop(scenario: Callable[[Purgatory], Any]) -> None:
    async def main() -> None:
        await scenario(Purgatory(asyncio.get_running_loop()))

    asyncio.run(asyncio.wait_for(main(), 30))


def test_enough_bytes_wake_a_waiter_once_at_the_end_of_the_turn() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, told = wait(purgatory, [place], missing_bytes=100)
        purgatory.on_data(place, 60)
        await turns()
        assert told == []
        purgatory.on_data(place, 30)
        purgatory.on_data(place, 30)
        assert told == []
        await turns()
        assert told == [False]
        assert not place.waiters

    in_loop(scenario)


def test_bytes_of_several_partitions_add_up() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        one: Any = Place()
        two: Any = Place()
        _, told = wait(purgatory, [one, two], missing_bytes=100)
        purgatory.on_data(one, 50)
        purgatory.on_data(two, 50)
        await turns()
        assert told == [False]
        assert not one.waiters
        assert not two.waiters

    in_loop(scenario)


def test_what_came_before_the_waiter_in_the_same_turn_does_not_count_twice() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, early = wait(purgatory, [place], missing_bytes=100)
        purgatory.on_data(place, 100)
        _, late = wait(purgatory, [place], missing_bytes=50)  # its own read found those 100 already
        await turns()
        assert (early, late) == ([False], [])
        purgatory.on_data(place, 50)
        await turns()
        assert late == [False]

    in_loop(scenario)


def test_the_deadline_answers_whatever_there_is() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, told = wait(purgatory, [place], timeout_ms=5)
        while not told:
            await asyncio.sleep(0.001)
        assert told == [True]
        assert not place.waiters

    in_loop(scenario)


def test_a_change_of_the_partition_answers_at_once() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, first = wait(purgatory, [place])
        _, second = wait(purgatory, [place])
        purgatory.on_change(place)
        assert (first, second) == ([False], [False])

    in_loop(scenario)


@pytest.mark.parametrize("ending", ["cancel", "finish"])
def test_a_waiter_that_is_done_hears_nothing_more(ending: str) -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        waiter, told = wait(purgatory, [place], timeout_ms=1)
        getattr(waiter, ending)()
        before = list(told)
        purgatory.on_data(place, 1000)
        purgatory.on_change(place)
        await asyncio.sleep(0.01)
        assert told == before
        assert not waiter.cancel()

    in_loop(scenario)


def test_a_waiter_that_answers_with_an_append_does_not_lose_the_next_wake_up() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        late: list[bool] = []

        def again(_is_expired: bool) -> None:
            purgatory.wait(Waiter(1, [place], late.append), 60_000)
            purgatory.on_data(place, 1)

        purgatory.wait(Waiter(1, [place], again), 60_000)
        purgatory.on_data(place, 1)
        await turns(5)
        assert late == [False]

    in_loop(scenario)


def test_bytes_of_an_open_transaction_wake_only_those_who_may_see_them() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        place.high_watermark = 1  # a transaction is open from offset 0 on
        _, committed = wait(purgatory, [place], is_committed=True)
        _, uncommitted = wait(purgatory, [place])
        place.high_watermark = 2
        purgatory.on_data(place, 1000)
        await turns()
        assert (committed, uncommitted) == ([], [False])
        place.high_watermark = place.last_stable_offset = 3
        purgatory.on_data(place, 78)
        await turns()
        assert committed == [False]

    in_loop(scenario)


def test_when_one_of_two_transactions_ends_committed_readers_look() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        place.high_watermark = 2
        _, told = wait(purgatory, [place], missing_bytes=10_000, is_committed=True)
        place.high_watermark, place.last_stable_offset = 3, 1
        purgatory.on_data(place, 78)
        await turns()
        assert told == [False]

    in_loop(scenario)


def test_stable_data_before_a_transaction_that_began_in_the_same_turn_is_not_missed() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, told = wait(purgatory, [place], is_committed=True)
        place.high_watermark = place.last_stable_offset = 1
        purgatory.on_data(place, 70)
        place.high_watermark = 2
        purgatory.on_data(place, 70)
        await turns()
        assert told == [False]

    in_loop(scenario)


def test_without_transactions_bytes_count_for_committed_readers_too() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        place: Any = Place()
        _, told = wait(purgatory, [place], missing_bytes=100, is_committed=True)
        place.high_watermark = place.last_stable_offset = 1
        purgatory.on_data(place, 60)
        await turns()
        assert told == []
        place.high_watermark = place.last_stable_offset = 2
        purgatory.on_data(place, 60)
        await turns()
        assert told == [False]

    in_loop(scenario)
