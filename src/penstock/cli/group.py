"""`penstock group`: list, describe and delete consumer groups, and set where they go on.

The lag of a partition is what the group has not read of it: the end of the log minus the committed offset. Where
nothing is committed it is not known, and shown as a dash; the group will begin where its consumers are told to.
Of a consumer group (KIP-848) also its epoch is shown, and what each member has and shall have: that differs while the
group rebalances.
Nothing here joins a group, so none of it makes one rebalance.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from penstock.cli.bootstrap import bootstrap_option, complete_group, connect, json_option
from penstock.cli.group_reset import reset_offsets
from penstock.cli.output import note, plural, show_json, show_table
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.groups import (
    CLASSIC,
    CONSUMER,
    GroupInfo,
    GroupMember,
    Groups,
    ListedGroup,
    UnknownGroupError,
)
from penstock.client.metadata import NO_LEADER
from penstock.client.offsets import LATEST, list_offsets
from penstock.types import TopicPartition


@click.group("group")
def command() -> None:
    """List, describe and delete consumer groups, and set their offsets."""


command.add_command(reset_offsets)


@command.command("list")
@bootstrap_option
@json_option
def list_groups(bootstrap: str, as_json: bool) -> None:
    """List groups. In a pipe: one name on each line."""
    with connect(bootstrap) as cluster:
        groups = Groups(cluster)
        listed = groups.list_groups()
        shows_members = as_json or sys.stdout.isatty()
        infos = _find_all(groups, listed) if shows_members else []
        counts = {info.name: len(info.members) for info in infos}
    if as_json:
        show_json([_summary(group, counts.get(group.name)) for group in listed])
    elif not shows_members:
        for group in listed:
            click.echo(group.name)
    elif not listed:
        note("There are no groups. Consumers make them: `penstock consume TOPIC --group NAME`.")
    else:
        rows = [(each.name, each.state, each.type, _or_dash(counts.get(each.name))) for each in listed]
        show_table(("group", "state", "type", "members"), rows, numbers=("members",))


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_group)
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show members, what each has, how far the group has read, and its lag; of all groups when none is named."""
    with connect(bootstrap) as cluster:
        groups = Groups(cluster)
        infos = groups.describe(list(dict.fromkeys(names))) if names else _find_all(groups, groups.list_groups())
        described = _describe(cluster, groups, infos)
    if as_json:
        show_json([group.as_json() for group in described])
        return
    for number, group in enumerate(described):
        if number:
            click.echo()
        group.show()


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_group)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete groups that have no members, with their offsets. Asks first on a terminal."""
    unique = list(dict.fromkeys(names))
    with connect(bootstrap) as cluster:
        groups = Groups(cluster)
        _check_names(groups, unique)
        if not yes and sys.stdin.isatty():
            question = f"Delete {', '.join(unique)} and what {'it has' if len(unique) == 1 else 'they have'} committed?"
            if not click.confirm(question, err=True):
                sys.exit(1)
        for name in unique:
            groups.delete(name)
            if not as_json:
                click.echo(f"Deleted group {name}.")
    if as_json:
        show_json({"deleted": unique})


@dataclass(frozen=True, slots=True)
class _Position:
    """How far a group is in a partition; None where it is not known."""

    where: TopicPartition
    committed: int | None
    log_end: int | None
    owner: GroupMember | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.committed)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.where.topic,
            "partition": self.where.partition,
            "committed_offset": self.committed,
            "log_end_offset": self.log_end,
            "lag": self.lag,
            "member_id": self.owner and self.owner.member_id,
        }

    def as_row(self) -> tuple[object, ...]:
        numbers = [_or_dash(self.committed), _or_dash(self.log_end), _or_dash(self.lag)]
        return (*self.where, *numbers, self.owner.member_id if self.owner else "-")


@dataclass(frozen=True, slots=True)
class _Group:
    info: GroupInfo
    positions: tuple[_Position, ...]

    @property
    def lag(self) -> int:
        """Of all partitions together, as far as it is known."""
        return sum(position.lag or 0 for position in self.positions)

    def as_json(self) -> dict[str, Any]:
        info = self.info
        return {
            "name": info.name,
            "state": info.state,
            "type": info.type,
            "assignor": info.assignor or None,
            "coordinator": info.coordinator,
            "epoch": info.epoch,
            "assignment_epoch": info.assignment_epoch,
            "lag": self.lag,
            "members": [_member_json(member) for member in info.members],
            "partitions": [position.as_json() for position in self.positions],
        }

    def show(self) -> None:
        info = self.info
        assignor = [f"assignor {info.assignor}"] if info.assignor else []
        counts = [plural(len(info.members), "member"), f"lag {self.lag:,}"]
        facts = [info.state, info.type, *_epochs(info), *assignor, *counts]
        click.secho(info.name, bold=True, nl=False)
        click.echo(f"  {', '.join(facts)}, coordinator {info.coordinator}")
        if self.positions:
            numbers = ("partition", "committed", "end", "lag")
            show_table(
                ("topic", *numbers, "member"), [position.as_row() for position in self.positions], numbers=numbers
            )
        if info.members:
            columns = ("member", "instance", "client", "host")
            own = ("epoch", "has", "shall have") if info.type == CONSUMER else ("partitions",)
            show_table((*columns, *own), [_member_row(member) for member in info.members], numbers=own[:1])


def _describe(cluster: Cluster, groups: Groups, infos: list[GroupInfo]) -> list[_Group]:
    """With every partition that was committed, or that a member has."""
    committed = groups.committed_by([info.name for info in infos])
    owners = {info.name: {where: member for member in info.members for where in member.partitions} for info in infos}
    partitions = {info.name: sorted({*committed[info.name], *owners[info.name]}) for info in infos}
    ends = _log_ends(cluster, {where for each in partitions.values() for where in each})

    def position(group: str, where: TopicPartition) -> _Position:
        return _Position(where, committed[group].get(where), ends.get(where), owners[group].get(where))

    return [_Group(info, tuple(position(info.name, where) for where in partitions[info.name])) for info in infos]


def _log_ends(cluster: Cluster, partitions: set[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Of the partitions that exist and have a leader."""
    topics = {where.topic for where in partitions}
    led = [
        where
        for topic in Admin(cluster).list_topics(internal=True)
        if topic.name in topics
        for info in topic.partitions
        if (where := TopicPartition(topic.name, info.partition)) in partitions and info.leader != NO_LEADER
    ]
    return {where: found.offset for where, found in list_offsets(cluster, dict.fromkeys(led, LATEST)).items()}


def _find_all(groups: Groups, listed: list[ListedGroup]) -> list[GroupInfo]:
    """Those that can be described, and have not gone since they were listed.

    The type is empty where the broker is too old to tell it, and all groups are classic.
    """
    found = groups.find([group.name for group in listed if group.type in ("", CLASSIC, CONSUMER)])
    return [found[group.name] for group in listed if group.name in found]


def _check_names(groups: Groups, names: list[str]) -> None:
    """A wrong name among others stops a deletion before the first is gone."""
    known = {group.name for group in groups.list_groups()}
    for name in names:
        if name not in known:
            raise UnknownGroupError(name)


def _summary(group: ListedGroup, member_count: int | None) -> dict[str, Any]:
    return {
        "name": group.name,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "member_count": member_count,
    }


def _member_json(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": _partitions_json(member.partitions),
        "target": None if member.target is None else _partitions_json(member.target),
    }


def _partitions_json(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": where.topic, "partition": where.partition} for where in partitions]


def _member_row(member: GroupMember) -> tuple[object, ...]:
    who = (member.member_id, member.instance_id or "-", member.client_id, member.host)
    if member.target is None:
        return (*who, len(member.partitions))
    return (*who, member.epoch, _in_short(member.partitions), _in_short(member.target))


def _in_short(partitions: Sequence[TopicPartition]) -> str:
    """`orders:0,1 payments:4`"""
    numbers: dict[str, list[str]] = {}
    for where in sorted(partitions):
        numbers.setdefault(where.topic, []).append(str(where.partition))
    return " ".join(f"{topic}:{','.join(each)}" for topic, each in numbers.items()) or "-"


def _epochs(info: GroupInfo) -> list[str]:
    """A group whose target is not made yet says both of its epochs."""
    if info.epoch is None:
        return []
    is_behind = info.assignment_epoch != info.epoch
    return [f"epoch {info.epoch}", *([f"target of epoch {info.assignment_epoch}"] if is_behind else [])]


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
