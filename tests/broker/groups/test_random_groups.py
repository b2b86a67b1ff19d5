"""Groups under random members (D4): whatever they do, every request is answered once, and rebalances end.

Members join, sync, beat, leave, commit and fall silent at random, writes are slow or fail, the broker crashes. After
each step the group's books must agree; at the end everyone falls silent, and the group must become empty by itself.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.groups.script import GROUP, Script
from penstock.broker.groups.group import State

NAMES = ("a", "b", "c", "d")
SEEDS = 60
STEPS = 250


class Watched(Script):
    """Counts who waits, and remembers the committed offsets and owners."""

    def __init__(self) -> None:
        super().__init__(max_size=3)
        self.open_tickets: dict[int, str] = {}
        self.ticket_count = 0

    def _ticket(self, name: str) -> Any:
        answer = super()._ticket(name)
        number = self.ticket_count = self.ticket_count + 1
        self.open_tickets[number] = name

        def once(response: Any) -> None:
            assert number in self.open_tickets, f"a request of {name} was answered twice"
            del self.open_tickets[number]
            answer(response)

        return once

    def do_reload(self, names: list[str], options: dict[str, str]) -> None:
        super().do_reload(names, options)
        self.open_tickets.clear()  # the connections are gone


def step(script: Watched, chance: random.Random) -> str:
    name = chance.choice(NAMES)
    line = chance.choices(
        [
            f"join {name} session={chance.choice((6, 10, 30))} rebalance={chance.choice((10, 60))}",
            f"join {name} instance=i-{name} as= session=10 rebalance=20",
            f"join {name} version=3 topics={chance.choice(('t', 'u', 't,u'))}",
            f"sync {name} " + " ".join(f"{each}={each}" for each in NAMES),
            f"heartbeat {name}",
            f"leave {name}",
            f"commit {name} t-0={chance.randint(0, 99)}",
            f"wait {chance.choice((0.1, 1, 5, 20))}",
            "hold",
            "release",
            "fail",
            "reload",
            "expire 5",
        ],
        weights=[12, 4, 4, 16, 8, 2, 6, 8, 1, 2, 1, 1, 1],
    )[0]
    needs_group = line.split()[0] in ("sync", "leave")
    if needs_group and GROUP not in script.shard.groups:
        return "wait 1"
    return line


def check(script: Watched) -> None:
    group = script.shard.groups.get(GROUP)
    if group is None:
        return
    assert set(group.static_members.values()) <= set(group.members)
    assert (group.leader_id in group.members) == bool(group.members)
    assert not set(group.pending_members) & set(group.members)
    assert set(group.pending_sync) <= set(group.members)
    assert not group.members or group.candidates(), "members without a protocol in common"
    assert (group.state is State.EMPTY) <= (not group.members)
    for member in group.members.values():
        assert member.awaiting_sync is None or group.state is State.COMPLETING_REBALANCE
    waiting = sum((member.awaiting_join is not None) + (member.awaiting_sync is not None)
                  for member in group.members.values())  # fmt: skip
    assert waiting == len(script.open_tickets), "someone waits whom the group does not know"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_members_do_everyone_is_answered_and_rebalances_end(seed: int) -> None:
    chance = random.Random(seed)
    script = Watched()
    told = []
    for _ in range(STEPS):
        line = step(script, chance)
        told.append(line)
        try:
            told += [f"> {said}" for said in script.run(line)]
            check(script)
        except Exception as error:
            raise AssertionError("\n".join(told[-60:])) from error
    script.run("release")
    script.is_failing = False
    script.run("wait 1000")
    assert not script.open_tickets, "\n".join(told[-60:])
    group = script.shard.groups.get(GROUP)
    assert group is None or group.state is State.EMPTY


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_crash_keeps_what_was_committed_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    script = Watched()
    committed: dict[int, int] = {}
    for _ in range(STEPS):
        line = step(script, chance)
        if line.startswith("expire"):
            continue
        script.run(line)
        offsets = dict(script.shard.offsets(GROUP)).get("t", {})
        if line == "reload":
            assert {partition: each.offset for partition, each in offsets.items()} == committed
        committed = {partition: each.offset for partition, each in offsets.items()}
