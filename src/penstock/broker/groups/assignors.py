"""Who gets which partition of a consumer group: the server-side assignors of KIP-848. Pure functions.

    uniform    as even as possible, and everyone keeps as much as possible of what they had
    range      topic by topic: neighbouring partitions to members in the order of their names, so that members get the
               same partition numbers of topics with equally many partitions

Both give every partition of a topic that someone is subscribed to, to exactly one of its subscribers. The same input
gives the same answer. Racks are not looked at, as in Kafka since 4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

TopicIdPartition = tuple[bytes, int]
Subscriptions = Mapping[str, frozenset[bytes]]
"""Member id -> the ids of the topics that it reads."""
PartitionCounts = Mapping[bytes, int]
"""Topic id -> how many partitions it has; only topics that exist."""
Assignment = dict[str, frozenset[TopicIdPartition]]
Assignor = Callable[[Subscriptions, PartitionCounts, Mapping[str, frozenset[TopicIdPartition]]], Assignment]

MAX_ROUNDS = 100
"""Of evening out where members read different topics. Each is a look at every partition, and few are ever needed."""


def uniform(
    subscriptions: Subscriptions, counts: PartitionCounts, previous: Mapping[str, frozenset[TopicIdPartition]]
) -> Assignment:
    if not subscriptions:
        return {}
    if len(set(subscriptions.values())) == 1:
        given = _even(subscriptions, counts, previous)
    else:
        given = _evened_out(subscriptions, counts, previous)
    return {member: frozenset(parts) for member, parts in given.items()}


def _even(
    subscriptions: Subscriptions, counts: PartitionCounts, previous: Mapping[str, frozenset[TopicIdPartition]]
) -> dict[str, set[TopicIdPartition]]:
    """All read the same topics: everyone gets the same number, and the rest one more, first those who had more."""
    topics = next(iter(subscriptions.values()))
    free = dict.fromkeys(_partitions(topics, counts))
    quota, extra = divmod(len(free), len(subscriptions))
    given: dict[str, set[TopicIdPartition]] = {}
    for member in sorted(subscriptions):
        kept = sorted(part for part in previous.get(member, ()) if part in free)
        room = quota
        if len(kept) > quota and extra:
            room, extra = quota + 1, extra - 1
        given[member] = set(kept[:room])
        for part in given[member]:
            del free[part]
    rest = iter(free)
    for size in (quota, quota + 1):
        for parts in given.values():
            if size > quota and (not extra or len(parts) > quota):
                continue
            extra -= size > quota
            while len(parts) < size:
                parts.add(next(rest))
    return given


def _evened_out(
    subscriptions: Subscriptions, counts: PartitionCounts, previous: Mapping[str, frozenset[TopicIdPartition]]
) -> dict[str, set[TopicIdPartition]]:
    """Members read different topics: everyone keeps what they had, the rest goes to those who have least, and then
    partitions move as long as that makes two members more alike."""
    readers = _readers(subscriptions, counts)
    given: dict[str, set[TopicIdPartition]] = {member: set() for member in sorted(subscriptions)}
    owners: dict[TopicIdPartition, str] = {}
    for member in given:
        for part in previous.get(member, ()):
            if member in readers.get(part[0], ()) and part[1] < counts[part[0]] and part not in owners:
                owners[part] = member
                given[member].add(part)
    # Topics that few can read come first: whoever can read others as well gets those later.
    for topic in sorted(readers, key=lambda each: (len(readers[each]), each)):
        for part in _partitions((topic,), counts):
            if part not in owners:
                owners[part] = min(readers[topic], key=lambda member: len(given[member]))
                given[owners[part]].add(part)
    for _ in range(MAX_ROUNDS):
        if not _even_out_once(given, owners, readers):
            break
    return given


def _even_out_once(
    given: dict[str, set[TopicIdPartition]], owners: dict[TopicIdPartition, str], readers: Mapping[bytes, list[str]]
) -> bool:
    has_moved = False
    for part in sorted(owners):
        owner = owners[part]
        least = min(readers[part[0]], key=lambda member: len(given[member]))
        if len(given[least]) + 1 < len(given[owner]):
            given[owner].remove(part)
            given[least].add(part)
            owners[part] = least
            has_moved = True
    return has_moved


def range_(
    subscriptions: Subscriptions, counts: PartitionCounts, _previous: Mapping[str, frozenset[TopicIdPartition]]
) -> Assignment:
    given: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    for topic, members in _readers(subscriptions, counts).items():
        quota, extra = divmod(counts[topic], len(members))
        start = 0
        for number, member in enumerate(members):
            end = start + quota + (number < extra)
            given[member].update((topic, index) for index in range(start, end))
            start = end
    return {member: frozenset(parts) for member, parts in given.items()}


def _readers(subscriptions: Subscriptions, counts: PartitionCounts) -> dict[bytes, list[str]]:
    """Topic id -> its subscribers by name; only topics that exist."""
    readers: dict[bytes, list[str]] = {}
    for member in sorted(subscriptions):
        for topic in subscriptions[member]:
            if topic in counts:
                readers.setdefault(topic, []).append(member)
    return readers


def _partitions(topics: tuple[bytes, ...] | frozenset[bytes], counts: PartitionCounts) -> list[TopicIdPartition]:
    return [(topic, index) for topic in sorted(topics) if topic in counts for index in range(counts[topic])]


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": range_}
