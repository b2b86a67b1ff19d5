"""What the members of a consumer group shall have: from subscriptions and topics to a target for each. Pure.

A member reads the topics that it names and those that its regular expression matches. Expressions are matched again
when topics came or went. The group remembers a hash of all its topics (id, name and number of partitions): when that
is another, the group's epoch grows and a new target is made.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from penstock.broker.groups.assignors import ASSIGNORS, Assignment, TopicIdPartition
from penstock.broker.groups.consumer_member import ConsumerMember
from penstock.broker.groups.topic_regex import match_topics
from penstock.errors import KafkaError
from penstock.metadata.image import TopicImage

Topics = Mapping[str, TopicImage]
Regexes = Mapping[str, frozenset[str]]
Members = Mapping[str, ConsumerMember]


def resolve_regexes(members: Members, known: Regexes, topics: Topics) -> dict[str, frozenset[str]]:
    """What each expression in use matches now. INVALID_REGULAR_EXPRESSION for a new one that cannot be used; an old
    one that has become too costly with more topics keeps what it matched.

    Internal topics are not matched: whoever wants them names them.
    """
    resolved = {}
    names = [name for name, topic in topics.items() if not topic.is_internal]
    for member in members.values():
        pattern = member.topic_regex
        if pattern is None or pattern in resolved:
            continue
        try:
            resolved[pattern] = match_topics(pattern, names)
        except KafkaError:
            if pattern not in known:
                raise
            resolved[pattern] = known[pattern]
    return resolved


def topics_of(member: ConsumerMember, regexes: Regexes) -> Collection[str]:
    """The names of what it reads, whether or not they exist."""
    if member.topic_regex is None:
        return member.topic_names
    return {*member.topic_names, *regexes.get(member.topic_regex, ())}


def metadata_hash(members: Members, regexes: Regexes, topics: Topics) -> int:
    """Of everything about the group's topics that counts for an assignment. Never 0, which is that of no group yet."""
    names = sorted({name for member in members.values() for name in topics_of(member, regexes) if name in topics})
    digest = hashlib.blake2b(digest_size=8)
    for name in names:
        topic = topics[name]
        digest.update(topic.topic_id + len(topic.partitions).to_bytes(4, "big") + name.encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True) or 1


def chosen_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The one that most members ask for."""
    votes = Counter(member.server_assignor for member in members if member.server_assignor is not None)
    return max(votes, key=lambda name: (votes[name], name)) if votes else default


def make_target(
    members: Members,
    regexes: Regexes,
    topics: Topics,
    previous: Mapping[str, frozenset[TopicIdPartition]],
    default_assignor: str,
) -> Assignment:
    subscriptions = {}
    counts: dict[bytes, int] = {}
    for member in members.values():
        read = [topics[name] for name in topics_of(member, regexes) if name in topics]
        subscriptions[member.member_id] = frozenset(topic.topic_id for topic in read)
        counts.update((topic.topic_id, len(topic.partitions)) for topic in read)
    assign = ASSIGNORS[chosen_assignor(members.values(), default_assignor)]
    return assign(subscriptions, counts, previous)
