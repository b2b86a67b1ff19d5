"""Topics: what creating, growing and deleting them would write, or why it is refused. Pure: an image in, a plan out.

A plan holds the operations for all topics of a request that are fine, as one transaction, and an answer for each topic.
Every key that a decision rests on is checked in the same transaction; when such a check fails, plan again.

Kafka 4.3's order of checks, which decides the error code (asked of a real one):
  create: too many partitions in the request (all topics refused); the name twice; the name itself; taken by a name that
          differs in '.' and '_' only; exists; settings; replication factor; number of partitions; assignment; brokers.
          As in Kafka, two colliding names in one request are both created.
  delete: deletion switched off (all topics refused); name and id both or neither given; given twice; unknown.
  grow:   the name twice; unknown; fewer partitions; the same number; assignments.

A new partition's leader is its first replica, all replicas are in sync, and every epoch is 0.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_letters, digits

from penstock.broker.controller.placement import Replicas, check_assignments, place
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.image import Image, TopicImage
from penstock.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from penstock.metadata.store import ABSENT, Check, Delete, Op, Put
from penstock.types import ZERO_TOPIC_ID, TopicId

MAX_NAME_LENGTH = 249
"""Kafka's: a directory's name must hold the topic, a partition number and a suffix."""

MAX_RECORDS_PER_REQUEST = 10_000
"""Kafka's bound on topics + partitions + settings that one request may create, all in one transaction."""

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's own log of metadata. We have none, and the name stays reserved."""

_NAME_CHARACTERS = frozenset(ascii_letters + digits + "._-")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that a client asks for; -1 means the broker's default, or that the assignments say it."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, Replicas], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """`num.partitions` and `default.replication.factor`."""

    num_partitions: int = 1
    replication_factor: int = 1


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: TopicId
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreatePlan:
    ops: tuple[Op, ...]
    results: Mapping[str, CreatedTopic | KafkaError]


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic to delete: by its name, or by its id with no name."""

    name: str | None = None
    topic_id: TopicId = ZERO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """The answer for one topic; the name is None where an unknown id was asked for."""

    name: str | None
    topic_id: TopicId
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class DeletePlan:
    ops: tuple[Op, ...]
    results: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic is to have `count` partitions in all; `assignments` are of the new ones, None leaves them to us."""

    name: str
    count: int
    assignments: tuple[Replicas, ...] | None = None


@dataclass(frozen=True, slots=True)
class GrowPlan:
    ops: tuple[Op, ...]
    results: Mapping[str, KafkaError | None] = field(default_factory=dict)


CheckConfigs = Callable[[Mapping[str, str]], None]
"""Raises ConfigError when a topic cannot have these settings."""


def check_topic_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION, with the reason, for a name that no topic can have."""
    if not name:
        raise _invalid_name("it is empty")
    if name in (".", ".."):
        raise _invalid_name(f"{name!r} is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid_name(f"it has {len(name)} characters, and {MAX_NAME_LENGTH} are allowed")
    if not _NAME_CHARACTERS.issuperset(name):
        raise _invalid_name(f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'")


def plan_create(
    image: Image,
    topics: Sequence[NewTopic],
    *,
    defaults: TopicDefaults,
    check_configs: CheckConfigs,
    chance: random.Random,
    now_ms: int,
) -> CreatePlan:
    """What creating these topics writes, and each one's answer."""
    if error := _too_large(topics, defaults):
        return CreatePlan((), {topic.name: error for topic in topics})
    names = Counter(topic.name for topic in topics)
    taken = {_collision_key(name): name for name in image.topics}
    ops: list[Op] = []
    results: dict[str, CreatedTopic | KafkaError] = {}
    for topic in topics:
        try:
            if names[topic.name] > 1:
                raise _duplicate_name()
            _check_name_is_free(image, topic.name, taken)
            configs = _checked_configs(topic.configs, check_configs)
            replicas = _new_replicas(image, topic, defaults, chance)
        except KafkaError as error:
            results[topic.name] = error
            continue
        topic_id = new_topic_id(chance)
        record = TopicRecord(topic.name, topic_id, dict(enumerate(replicas)), now_ms)
        ops += _create_ops(record, configs)
        results[topic.name] = CreatedTopic(topic.name, topic_id, len(replicas), len(replicas[0]), configs)
    return CreatePlan(tuple(ops), results)


def plan_delete(image: Image, refs: Sequence[TopicRef], *, is_enabled: bool = True) -> DeletePlan:
    """What deleting these topics writes. Equal references are answered once, as Kafka does."""
    if not is_enabled:
        disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
        return DeletePlan((), tuple(DeletedTopic(ref.name, ref.topic_id, disabled) for ref in refs))
    counts = Counter(refs)
    ids = {ref.topic_id for ref in refs if ref.name is None}
    names = {ref.name for ref in refs}
    ops: list[Op] = []
    results: list[DeletedTopic] = []
    for ref in counts:
        topic = image.topics_by_id.get(ref.topic_id) if ref.name is None else image.topics.get(ref.name)
        if ref.name is None and topic is not None and topic.name in names:
            continue  # answered where its name was given
        try:
            _check_ref(ref, counts[ref])
            if topic is None:
                raise KafkaError(_unknown(ref))
            if ref.name is not None and topic.topic_id in ids:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic {ref.name!r} is named, and its id is given too.")
            ops += _delete_ops(image, topic)
            results.append(DeletedTopic(topic.name, topic.topic_id))
        except KafkaError as error:
            results.append(DeletedTopic(ref.name, ref.topic_id, error))
    return DeletePlan(tuple(ops), tuple(results))


def plan_create_partitions(image: Image, growths: Sequence[NewPartitions], *, chance: random.Random) -> GrowPlan:
    """What adding partitions writes, and each topic's answer."""
    names = Counter(growth.name for growth in growths)
    budget = MAX_RECORDS_PER_REQUEST
    ops: list[Op] = []
    results: dict[str, KafkaError | None] = {}
    for growth in growths:
        try:
            if names[growth.name] > 1:
                raise _duplicate_name()
            topic = image.topics.get(growth.name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            budget -= max(growth.count - len(topic.partitions), 0)
            if budget < 0:
                raise _too_many_partitions(ErrorCode.UNKNOWN_SERVER_ERROR)
            ops += _grow_ops(image, topic, growth, chance)
            results[growth.name] = None
        except KafkaError as error:
            results[growth.name] = error
    return GrowPlan(tuple(ops), results)


def new_topic_id(chance: random.Random) -> TopicId:
    """A random id (UUID version 4, so none of Kafka's reserved ones) that prints without a leading dash."""
    while True:
        raw = bytearray(chance.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        # 0xF8 to 0xFB print as a leading "-", which command lines take for an option.
        if not 0xF8 <= raw[0] <= 0xFB:
            return TopicId(bytes(raw))


def _too_large(topics: Sequence[NewTopic], defaults: TopicDefaults) -> KafkaError | None:
    count = 0
    for topic in topics:
        wanted = defaults.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        count += 1 + len(topic.configs) + max(len(topic.assignments) or wanted, 0)
    return _too_many_partitions(ErrorCode.POLICY_VIOLATION) if count > MAX_RECORDS_PER_REQUEST else None


def _check_name_is_free(image: Image, name: str, taken: Mapping[str, str]) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The topic {name} is reserved and cannot be created.")
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
    other = taken.get(_collision_key(name))
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic {name!r} collides with the topic {other!r}: the names of metrics make no difference between "
            "'.' and '_'.",
        )


def _collision_key(name: str) -> str:
    return name.replace(".", "_")


def _checked_configs(configs: Iterable[tuple[str, str | None]], check_configs: CheckConfigs) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The setting {name} has no value (null).")
        checked[name] = value
    try:
        check_configs(checked)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return checked


def _new_replicas(image: Image, topic: NewTopic, defaults: TopicDefaults, chance: random.Random) -> list[Replicas]:
    if topic.assignments:
        return _assigned_replicas(image, topic)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is {topic.replication_factor}. It is 1 or more, or -1 for the broker's default.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions is {topic.num_partitions}. It is 1 or more, or -1 for the broker's default.",
        )
    count = defaults.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return place(image.brokers, count, factor, chance)


def _assigned_replicas(image: Image, topic: NewTopic) -> list[Replicas]:
    if topic.replication_factor != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "With an assignment given, the replication factor must be -1.")
    if topic.num_partitions != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "With an assignment given, the number of partitions must be -1.")
    by_partition: dict[int, Replicas] = {}
    for partition, replicas in topic.assignments:
        if partition in by_partition:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {partition} is assigned twice.")
        by_partition[partition] = tuple(replicas)
        check_assignments(image.brokers, [replicas])
    if sorted(by_partition) != list(range(len(by_partition))):
        message = "The partitions of an assignment are numbered 0, 1, 2 and so on, with none left out."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return check_assignments(image.brokers, [by_partition[partition] for partition in sorted(by_partition)])


def _create_ops(record: TopicRecord, configs: Mapping[str, str]) -> list[Op]:
    key = records.topic_key(record.name)
    ops: list[Op] = [Check(key, ABSENT), Put(key, record.encode())]
    if configs:
        ops.append(Put(records.topic_config_key(record.name), ConfigRecord(configs).encode()))
    ops += [_new_partition(record.topic_id, index, replicas) for index, replicas in record.partitions.items()]
    return ops


def _new_partition(topic_id: TopicId, index: int, replicas: Replicas) -> Put:
    state = PartitionRecord(leader=replicas[0], leader_epoch=0, isr=replicas, partition_epoch=0)
    return Put(records.partition_key(topic_id, index), state.encode())


def _check_ref(ref: TopicRef, count: int) -> None:
    if ref.name is not None and ref.topic_id != ZERO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is given by its name or by its id, not by both.")
    if ref.name is None and ref.topic_id == ZERO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is given with neither name nor id.")
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic is given more than once.")


def _unknown(ref: TopicRef) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if ref.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _delete_ops(image: Image, topic: TopicImage) -> list[Op]:
    key = records.topic_key(topic.name)
    ops: list[Op] = [Check(key, topic.version), Delete(key)]
    ops += [Delete(records.partition_key(topic.topic_id, partition.index)) for partition in topic.partitions]
    if topic.name in image.topic_configs:
        ops.append(Delete(records.topic_config_key(topic.name)))
    return ops


def _grow_ops(image: Image, topic: TopicImage, growth: NewPartitions, chance: random.Random) -> list[Op]:
    current = len(topic.partitions)
    if growth.count < current:
        message = f"Topic {topic.name!r} has {current} partitions; {growth.count} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if growth.count == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic {topic.name!r} has {current} partitions already.")
    added = _added_replicas(image, topic, growth, chance)
    partitions = dict(topic.record.partitions) | dict(enumerate(added, current))
    key = records.topic_key(topic.name)
    ops: list[Op] = [Check(key, topic.version), Put(key, replace(topic.record, partitions=partitions).encode())]
    ops += [_new_partition(topic.topic_id, index, replicas) for index, replicas in enumerate(added, current)]
    return ops


def _added_replicas(image: Image, topic: TopicImage, growth: NewPartitions, chance: random.Random) -> list[Replicas]:
    count = growth.count - len(topic.partitions)
    first = topic.partitions[0].replicas
    if growth.assignments is None:
        return place(image.brokers, count, len(first), chance)
    if len(growth.assignments) != count:
        message = f"{count} partitions are to be added, but {len(growth.assignments)} assignments are given."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    added = check_assignments(image.brokers, growth.assignments)
    if len(added[0]) != len(first):
        message = f"The new partitions have {len(added[0])} replicas where the topic's have {len(first)}."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return added


def _invalid_name(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic's name is not valid: {reason}.")


def _duplicate_name() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named more than once in the request.")


def _too_many_partitions(code: ErrorCode) -> KafkaError:
    return KafkaError(code, f"One request may create at most {MAX_RECORDS_PER_REQUEST} partitions; ask in parts.")
