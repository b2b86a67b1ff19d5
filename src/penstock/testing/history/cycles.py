"""No transaction depends on itself: cycles among the committed ones.

One transaction comes before another when

    wr    the other read what it wrote
    ww    the other wrote to a partition next after it
    rw    it read a partition to where the other wrote next

A cycle of `wr` alone (G1c) means that a value was seen before its transaction was committed: no log may do that.
Cycles with `ww` (G0, G1c) are possible in Kafka: the writes of transactions that run at the same time lie side by side
in each partition, in any order, and only the commit is one. They, and those with `rw`, are forbidden only where a test
says so, because its transactions never overlap.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from penstock.testing.history.history import History
from penstock.testing.history.transaction import Transaction, Write

Dependency = Literal["wr", "ww", "rw"]
Graph = Mapping[Transaction, Mapping[Transaction, Dependency]]

G1C: tuple[Dependency, ...] = ("wr",)
WITH_WRITES: tuple[Dependency, ...] = ("wr", "ww")
STRICT: tuple[Dependency, ...] = ("wr", "ww", "rw")


def cycles(history: History, kinds: Collection[Dependency] = G1C) -> Iterator[str]:
    """One cycle for each knot of transactions that depend on each other."""
    graph = dependencies(history, kinds)
    for knot in _knots(graph):
        path = _shortest_cycle(graph, knot)
        steps = [f"{here.name} -{graph[here][there]}-> " for here, there in itertools.pairwise(path)]
        yield f"Transactions depend on themselves: {''.join(steps)}{path[-1].name}."


def dependencies(history: History, kinds: Collection[Dependency]) -> Graph:
    graph: dict[Transaction, dict[Transaction, Dependency]] = defaultdict(dict)
    partitions = history.by_partition()
    for before, after, kind in [
        *_write_to_read(history),
        *_write_to_write(partitions),
        *_read_to_write(history, partitions),
    ]:
        if kind in kinds and before is not after:
            graph[before].setdefault(after, kind)
            graph.setdefault(after, {})
    return graph


Edge = tuple[Transaction, Transaction, Dependency]


def _write_to_read(history: History) -> Iterator[Edge]:
    for write in history.committed_writes:
        for read in write.reads:
            if read.transaction is not None and read.transaction.is_committed:
                yield write.transaction, read.transaction, "wr"


def _write_to_write(partitions: Mapping[str, list[Write]]) -> Iterator[Edge]:
    for writes in partitions.values():
        for before, after in itertools.pairwise(writes):
            yield before.transaction, after.transaction, "ww"


def _read_to_write(history: History, partitions: Mapping[str, list[Write]]) -> Iterator[Edge]:
    offsets = {partition: [write.offset or 0 for write in writes] for partition, writes in partitions.items()}
    for transaction in history.committed:
        for partition, offset in {read.partition: read.offset for read in transaction.reads}.items():
            place = bisect.bisect_right(offsets.get(partition, []), offset)
            if place < len(partitions.get(partition, ())):
                yield transaction, partitions[partition][place].transaction, "rw"


def _knots(graph: Graph) -> Iterator[list[Transaction]]:
    """Strongly connected parts of more than one transaction (Tarjan), without recursion: histories are long."""
    index: dict[Transaction, int] = {}
    low: dict[Transaction, int] = {}
    stack: list[Transaction] = []
    on_stack: set[Transaction] = set()
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    knot = _popped(stack, node)
                    on_stack.difference_update(knot)
                    if len(knot) > 1:
                        yield knot


def _popped(stack: list[Transaction], node: Transaction) -> list[Transaction]:
    """Everything down to this one, with it first; from the end, for the stack may be as long as the history."""
    knot = [stack.pop()]
    while knot[-1] is not node:
        knot.append(stack.pop())
    return knot[::-1]


def _shortest_cycle(graph: Graph, knot: list[Transaction]) -> list[Transaction]:
    """From the knot's first transaction back to it, in as few steps as there can be."""
    start, inside = knot[0], set(knot)
    paths = [[start]]
    seen = {start}
    while True:
        longer = []
        for path in paths:
            for successor in graph[path[-1]]:
                if successor is start:
                    return [*path, start]
                if successor in inside and successor not in seen:
                    seen.add(successor)
                    longer.append([*path, successor])
        paths = longer
