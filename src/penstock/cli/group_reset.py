"""`penstock group reset-offsets`: set where a group goes on. A dry run unless --execute is given, as Kafka's tool does.

It is refused while the group has members: they would go on from where they are, and commit that. A group that does not
exist yet is made by it, so that its first consumer begins where it should.
"""

from __future__ import annotations

import re

import click

from penstock.cli.bootstrap import bootstrap_option, complete_group, complete_topic, connect, json_option
from penstock.cli.moment import Moment, parse_duration
from penstock.cli.output import note, plural, show_json, show_table
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.groups import ActiveGroupError, Groups
from penstock.client.offset_reset import Offsets, Target, TargetKind, new_offsets
from penstock.env.clock import SystemClock
from penstock.errors import ConfigError
from penstock.types import TopicPartition

NOW_MS = SystemClock().now_ms
_TOPIC_AND_PARTITIONS = re.compile(r"(?P<topic>[^:]+)(?::(?P<partitions>\d+(?:,\d+)*))?")


class Duration(click.ParamType[int]):
    """A length of time, as milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("reset-offsets")
@click.argument("group", shell_complete=complete_group)
@click.option(
    "--topic", "-t", "topics", multiple=True, metavar="TOPIC[:P,P]", shell_complete=complete_topic,
    help="A topic, or some of its partitions: orders, orders:0,3. May be repeated.",
)  # fmt: skip
@click.option("--all-topics", is_flag=True, help="Every partition that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the oldest message.")
@click.option("--to-latest", is_flag=True, help="To the end: skip what is there.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--to-datetime", type=Moment(NOW_MS), metavar="TIME", help="To 2024-05-01T12:00, '1h ago', or ms.")
@click.option("--by-duration", type=Duration(), metavar="LENGTH", help="So long ago: 90m, 2h, 1d, or PT1H30M.")
@click.option("--shift-by", type=int, metavar="N|-N", help="N messages forth, or back from what is committed.")
@click.option("--execute", is_flag=True, help="Do it. Without it: only show what would be.")
@bootstrap_option
@json_option
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: int | None,
    by_duration: int | None,
    shift_by: int | None,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Set where a group goes on. Shows what would change; --execute does it.

    The group must have no members. An offset outside of the log is moved to its nearer end.

    \b
      penstock group reset-offsets billing --all-topics --to-earliest
      penstock group reset-offsets billing --topic orders:0,1 --shift-by -10 --execute
      penstock group reset-offsets billing --topic orders --by-duration 2h --execute
    """
    target = _target(to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by)
    if bool(topics) == all_topics:
        raise click.UsageError("Say which topics: --topic TOPIC[:P,P], or --all-topics.")
    named = [_parse_topic(text) for text in topics]
    with connect(bootstrap) as cluster:
        groups = Groups(cluster)
        info = groups.find([group]).get(group)
        if info is not None and info.members:
            raise ActiveGroupError(group)
        committed = groups.committed(group)
        partitions = sorted(committed) if all_topics else _partitions(cluster, named)
        if not partitions:
            raise ConfigError(f"Group {group!r} has committed nothing. Name the topics with --topic.")
        wanted = new_offsets(cluster, partitions, committed, target)
        if execute:
            groups.commit(group, wanted)
    _show(group, committed, wanted, is_done=execute, as_json=as_json)


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: int | None,
    by_duration: int | None,
    shift_by: int | None,
) -> Target:
    """The one that was given."""
    given = []
    if to_earliest:
        given.append(Target(TargetKind.EARLIEST))
    if to_latest:
        given.append(Target(TargetKind.LATEST))
    if to_offset is not None:
        given.append(Target(TargetKind.OFFSET, to_offset))
    if to_datetime is not None:
        given.append(Target(TargetKind.TIME, to_datetime))
    if by_duration is not None:
        given.append(Target(TargetKind.TIME, NOW_MS() - by_duration))
    if shift_by is not None:
        given.append(Target(TargetKind.SHIFT, shift_by))
    if len(given) != 1:
        choices = "--to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration or --shift-by"
        raise click.UsageError(f"Give one target: {choices}.")
    return given[0]


def _parse_topic(text: str) -> tuple[str, list[int]]:
    """`orders:0,3` -> ("orders", [0, 3]); no numbers mean all partitions."""
    found = _TOPIC_AND_PARTITIONS.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:P,P, like orders:0,3.", param_hint="--topic")
    return found["topic"], [int(number) for number in (found["partitions"] or "").split(",") if number]


def _partitions(cluster: Cluster, named: list[tuple[str, list[int]]]) -> list[TopicPartition]:
    """Each once, in order; KafkaError when one does not exist."""
    found = set()
    for info, (topic, numbers) in zip(Admin(cluster).describe_topics([name for name, _ in named]), named, strict=True):
        for number in numbers or range(len(info.partitions)):
            cluster.partition(TopicPartition(topic, number))
            found.add(TopicPartition(topic, number))
    return sorted(found)


def _show(group: str, committed: Offsets, wanted: Offsets, *, is_done: bool, as_json: bool) -> None:
    if as_json:
        rows = [
            {"topic": where.topic, "partition": where.partition, "old_offset": committed.get(where), "new_offset": new}
            for where, new in wanted.items()
        ]
        show_json({"group": group, "executed": is_done, "partitions": rows})
        return
    shown = [(*where, committed.get(where, "-"), new) for where, new in wanted.items()]
    numbers = ("partition", "committed", "new offset")
    show_table(("topic", *numbers), shown, numbers=numbers)
    if is_done:
        note(f"Set {plural(len(wanted), 'offset')} of group {group}.")
    else:
        note("This was a dry run, nothing has changed. Add --execute to do it.")
