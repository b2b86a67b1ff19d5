"""`penstock topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from penstock.cli.bootstrap import bootstrap_option, complete_topic, connect, json_option, parse_settings
from penstock.cli.output import human_bytes, note, plural, show_json, show_table
from penstock.client.admin import BROKER_DEFAULT, Admin, Config, ConfigSource
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.metadata import NO_LEADER, PartitionInfo, TopicInfo
from penstock.client.offsets import EARLIEST, LATEST, list_offsets
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.types import TopicPartition, topic_id_text
from penstock.wire.records import MAX_INT32

COUNT = click.IntRange(1, MAX_INT32)
REPLICATION_FACTOR = click.IntRange(1, 32_767)
"""As many as the protocol has room for; what is too many is the broker's to say."""


@click.group("topic")
def command() -> None:
    """Create, list, describe, change and delete topics."""


@command.command("create")
@click.argument("name")
@click.option("--partitions", "-p", type=COUNT, help="How many.  [default: the broker's]")
@click.option("--replication-factor", "-r", type=REPLICATION_FACTOR, help="Copies.  [default: the broker's]")
@click.option("--config", "-c", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
@bootstrap_option
@json_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create a topic. It can be used as soon as this returns."""
    settings = parse_settings(configs, "--config")
    with connect(bootstrap) as cluster:
        admin, is_new = Admin(cluster), True
        try:
            info = admin.create_topic(
                name,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                configs=settings,
            )
        except KafkaError as error:
            if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            info, is_new = admin.describe_topics([name])[0], False
    count = len(info.partitions)
    if as_json:
        show_json({"name": name, "id": topic_id_text(info.topic_id), "partitions": count, "created": is_new})
    else:
        click.echo(
            f"{'Created topic' if is_new else 'There is already a topic'} {name} with {plural(count, 'partition')}."
        )


@command.command("list")
@click.option("--internal", is_flag=True, help="Also the topics that the broker keeps for itself.")
@bootstrap_option
@json_option
def list_topics(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List topics. In a pipe: one name on each line."""
    with connect(bootstrap) as cluster:
        topics = Admin(cluster).list_topics(internal=internal)
    if as_json:
        show_json([_summary(topic) for topic in topics])
    elif not sys.stdout.isatty():
        for topic in topics:
            click.echo(topic.name)
    elif not topics:
        note("There are no topics. Create one with `penstock topic create NAME`.")
    else:
        rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
        show_table(("topic", "partitions", "replicas"), rows, numbers=("partitions", "replicas"))


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topic)
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show partitions, leaders, offsets, sizes and settings that are not defaults; of all topics when none is named."""
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        topics = admin.describe_topics(names) if names else admin.list_topics()
        described = _describe(cluster, admin, topics)
    if as_json:
        show_json([topic.as_json() for topic in described])
        return
    for number, topic in enumerate(described):
        if number:
            click.echo()
        topic.show()


@command.command("alter")
@click.argument("name", shell_complete=complete_topic)
@click.option("--partitions", "-p", type=COUNT, help="The new number; it can only grow.")
@click.option("--set", "-s", "sets", multiple=True, metavar="KEY=VALUE", help="Change a setting; may be repeated.")
@click.option("--delete", "-d", "deletes", multiple=True, metavar="KEY", help="Take a setting back to its default.")
@bootstrap_option
@json_option
def alter(
    name: str, partitions: int | None, sets: tuple[str, ...], deletes: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """Change a topic's settings, or add partitions.

    Messages stay where they are when partitions are added, but keys may go to others from then on.
    """
    changes: dict[str, str | None] = {**parse_settings(sets, "--set"), **dict.fromkeys(deletes)}
    if partitions is None and not changes:
        raise click.UsageError("Nothing to change: give --partitions, --set or --delete.")
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        if changes:
            admin.alter_configs(name, changes)
        if partitions is not None:
            admin.create_partitions(name, partitions)
    if as_json:
        show_json({"name": name, "partitions": partitions, "configs": changes})
    else:
        click.echo(f"Changed topic {name}.")


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topic)
@click.option("--internal", is_flag=True, help="Also topics that the broker keeps for itself, with what it knows.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def delete(names: tuple[str, ...], internal: bool, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics with all of their messages. Asks first on a terminal."""
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        _check_may_go(admin, names, internal)  # a wrong name among them stops it before the first is gone
        if not yes and sys.stdin.isatty():
            question = f"Delete {', '.join(names)} and all messages in {'it' if len(names) == 1 else 'them'}?"
            if not click.confirm(question, err=True):
                sys.exit(1)
        for name in dict.fromkeys(names):
            admin.delete_topic(name)
            if not as_json:
                click.echo(f"Deleted topic {name}.")
    if as_json:
        show_json({"deleted": list(dict.fromkeys(names))})


def _check_may_go(admin: Admin, names: Sequence[str], internal: bool) -> None:
    try:
        topics = admin.describe_topics(names)
    except UnknownTopicError as error:  # without its advice to create it: that is not what is wanted here
        raise ConfigError(f"There is no topic {error.topic!r}. Nothing was deleted.") from None
    for topic in topics:
        if topic.is_internal and not internal:
            raise ConfigError(
                f"Topic {topic.name!r} is the broker's own: without it groups lose their offsets and open "
                "transactions are never ended. Nothing was deleted. --internal deletes it all the same."
            )


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition with what several brokers know of it; an offset is None while it has no leader."""

    info: PartitionInfo
    earliest: int | None
    latest: int | None
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        info = self.info
        return {
            "partition": info.partition,
            "leader": None if info.leader == NO_LEADER else info.leader,
            "leader_epoch": info.leader_epoch,
            "replicas": info.replicas,
            "isr": info.isr,
            "offline_replicas": info.offline_replicas,
            "earliest_offset": self.earliest,
            "latest_offset": self.latest,
            "size_bytes": self.size_bytes,
        }

    def as_row(self) -> tuple[object, ...]:
        info = self.info
        leader = "none" if info.leader == NO_LEADER else info.leader
        shown = [_ids(info.replicas), _ids(info.isr), _or_dash(self.earliest), _or_dash(self.latest)]
        return (info.partition, leader, *shown, human_bytes(self.size_bytes))


@dataclass(frozen=True, slots=True)
class _Topic:
    info: TopicInfo
    partitions: Sequence[_Partition]
    configs: Sequence[Config]
    """Those that differ from Kafka's defaults."""

    def as_json(self) -> dict[str, Any]:
        return {
            **_summary(self.info),
            "configs": {config.name: config.value for config in self.configs},
            "partitions": [partition.as_json() for partition in self.partitions],
        }

    def show(self) -> None:
        size = human_bytes(sum(partition.size_bytes for partition in self.partitions))
        facts = [
            plural(len(self.partitions), "partition"),
            f"replication factor {_replication_factor(self.info)}",
            size,
        ]
        click.secho(self.info.name, bold=True, nl=False)
        click.echo(f"  {', '.join(facts)}, id {topic_id_text(self.info.topic_id)}")
        for config in self.configs:
            origin = "" if config.source is ConfigSource.DYNAMIC_TOPIC_CONFIG else "  (set for the broker)"
            click.echo(f"  {config.name}={'(hidden)' if config.is_sensitive else config.value}{origin}")
        columns = ("partition", "leader", "replicas", "in sync", "earliest", "latest", "size")
        rows = [partition.as_row() for partition in self.partitions]
        show_table(columns, rows, numbers=("partition", "leader", "earliest", "latest", "size"), has_head=True)


def _describe(cluster: Cluster, admin: Admin, topics: Sequence[TopicInfo]) -> list[_Topic]:
    led = [
        TopicPartition(topic.name, info.partition)
        for topic in topics
        for info in topic.partitions
        if info.leader != NO_LEADER
    ]
    earliest = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(led, LATEST))
    sizes = admin.log_sizes()
    configs = admin.describe_configs([topic.name for topic in topics]) if topics else {}

    def partition(topic: str, info: PartitionInfo) -> _Partition:
        where = TopicPartition(topic, info.partition)
        first, last = earliest.get(where), latest.get(where)
        size = sizes.get(where, {}).get(info.leader, 0)
        return _Partition(info, first and first.offset, last and last.offset, size)

    return [
        _Topic(
            topic,
            [partition(topic.name, info) for info in topic.partitions],
            [config for config in configs[topic.name] if config.source is not ConfigSource.DEFAULT_CONFIG],
        )
        for topic in topics
    ]


def _summary(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic_id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
    }


def _replication_factor(topic: TopicInfo) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "none"


def _or_dash(offset: int | None) -> str:
    return "-" if offset is None else str(offset)
