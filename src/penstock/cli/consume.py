"""`penstock consume`: print the messages of a topic.

Without --follow it reads what is there, from the beginning unless told otherwise, up to the end as it was when it
started, and exits. With --follow it waits for more, from the end unless told otherwise, until Ctrl-C; a broker that is
lost meanwhile is looked for as long, unless --timeout sets an end.
Messages of transactions that are open or aborted are left out, and the end is where the first open one begins; with
--isolation read_uncommitted all are printed.
It is no member of a group and commits nothing: the same command prints the same messages again. With --group it is one,
and goes on where the group is (see `consume_group`).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import click

from penstock.cli.bootstrap import TIMEOUT_SECONDS, bootstrap_option, complete_group, complete_topic, connect
from penstock.cli.consume_group import print_as_member, start_of
from penstock.cli.message_format import Write, message_format
from penstock.cli.moment import Moment
from penstock.cli.output import note, progress
from penstock.client.cluster import DEFAULT_TIMEOUT_MS, Cluster, UnknownTopicError
from penstock.client.fetcher import Fetched, Fetcher, records_of
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from penstock.env.clock import SystemClock
from penstock.errors import ConfigError
from penstock.types import TopicPartition

UNBOUNDED = sys.maxsize
MOMENT = Moment(SystemClock().now_ms)

Offsets = dict[TopicPartition, int]


@click.command("consume")
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "--group", "-g", is_flag=False, flag_value="", metavar="[NAME]", shell_complete=complete_group,
    help="Read as a member of this group and commit; the group 'default' when no name follows.",
)  # fmt: skip
@click.option("--partition", "-p", "partitions", type=click.IntRange(min=0), multiple=True, help="May be repeated.")
@click.option("--from-beginning", is_flag=True, help="Start with the oldest message.  [default without --follow]")
@click.option("--offset", type=int, metavar="N|-N", help="Start at this offset; -N: N messages before the end.")
@click.option("--from-time", type=MOMENT, metavar="TIME", help="Start here: 2024-05-01T12:00, '1h ago', ms.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Stop before this offset.")
@click.option("--to-time", type=MOMENT, metavar="TIME", help="Stop before this time.")
@click.option("--max", "-n", "limit", type=click.IntRange(min=1), metavar="N", help="Print at most N messages.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option(
    "--timeout", type=TIMEOUT_SECONDS, metavar="SECONDS",
    help="How long to look for a broker that was lost.  [default: 30; with --follow: no end]",
)  # fmt: skip
@click.option(
    "--format",
    "format_",
    default="value",
    show_default=True,
    metavar="FORMAT",
    help="value, key-value, json, or a pattern like '%k %v': %t topic, %p partition, %o offset, %k key, %v value, "
    "%h headers, %T timestamp, %d date. A missing key or value is printed as null; only json tells it from the text.",
)
@click.option(
    "--isolation", type=click.Choice(("read_committed", "read_uncommitted")), default="read_committed",
    show_default=True, help="read_uncommitted: also messages of transactions that are open or aborted.",
)  # fmt: skip
@click.option("--headers", "with_headers", is_flag=True, help="Headers before each message.")
@click.option("--json", "as_json", is_flag=True, help="As --format json: one object on each line.")
@bootstrap_option
def command(
    topic: str,
    group: str | None,
    partitions: tuple[int, ...],
    from_beginning: bool,
    offset: int | None,
    from_time: int | None,
    to_offset: int | None,
    to_time: int | None,
    limit: int | None,
    follow: bool,
    timeout: int | None,
    format_: str,
    isolation: str,
    with_headers: bool,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Print the messages of a topic.

    Reads what is there and exits; with --follow it waits for more. Messages of one partition come in their order,
    those of different partitions as they arrive. Nothing is committed, unless --group makes it a member of a group:
    then it goes on where the group is.

    \b
      penstock consume orders --max 10
      penstock consume orders --follow --format '%d %k %v'
      penstock consume orders --from-time '1h ago' --format json
      penstock consume orders --group billing --follow
    """
    if sum((from_beginning, offset is not None, from_time is not None)) > 1:
        raise click.UsageError("Give one start: --from-beginning, --offset or --from-time.")
    if to_offset is not None and to_time is not None:
        raise click.UsageError("Give one end: --to-offset or --to-time.")
    if group is not None and (partitions or any(each is not None for each in (offset, to_offset, to_time))):
        raise click.UsageError(
            "A group decides about partitions and offsets: no --partition, --offset or --to-... here."
        )
    try:
        is_terminal = sys.stdout.isatty()
        write = message_format("json" if as_json else format_, with_headers=with_headers, is_terminal=is_terminal)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    with connect(bootstrap, DEFAULT_TIMEOUT_MS if timeout is None else timeout * 1000) as cluster:
        chosen = _choose_partitions(cluster, topic, partitions)
        patience_ms = math.inf if follow and timeout is None else None
        if group is not None:
            begin = start_of(from_beginning, from_time, follow)
            bound = limit or UNBOUNDED
            printed = print_as_member(
                topic, bootstrap, group, cluster,
                start=begin, follow=follow, limit=bound, write=write, patience_ms=patience_ms, isolation=isolation,
            )  # fmt: skip
            if is_terminal and not printed:
                note("There is nothing new for the group.")
            return
        level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
        bounds = _Bounds.of(cluster, chosen, level)
        start = _starts(cluster, bounds, offset, from_time, follow and not from_beginning)
        end = _ends(cluster, bounds, to_offset, to_time, follow)
        try:
            with Fetcher(cluster, _ahead(start, end), timeout_ms=patience_ms, isolation_level=level) as fetcher:
                _print_all(fetcher, end, limit or UNBOUNDED, write, is_terminal)
        except UnknownTopicError:
            raise ConfigError(f"Topic {topic!r} was deleted.") from None


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where the partitions start and end now."""

    earliest: Offsets
    latest: Offsets
    isolation_level: int
    """Which end that is: of all messages, or of those before the first open transaction."""

    @classmethod
    def of(cls, cluster: Cluster, partitions: list[TopicPartition], isolation_level: int) -> _Bounds:
        first = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST), isolation_level=isolation_level)
        last = list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation_level=isolation_level)
        earliest, latest = ({where: at.offset for where, at in found.items()} for found in (first, last))
        return cls(earliest, latest, isolation_level)


def _choose_partitions(cluster: Cluster, topic: str, numbers: tuple[int, ...]) -> list[TopicPartition]:
    info = cluster.retry(lambda deadline: cluster.topic(topic, deadline=deadline))
    count = len(info.partitions)
    for number in numbers:
        if number >= count:
            raise ConfigError(f"Topic {topic!r} has no partition {number}: it has {count}, numbered from 0.")
    return [TopicPartition(topic, number) for number in dict.fromkeys(numbers or range(count))]


def _starts(cluster: Cluster, bounds: _Bounds, offset: int | None, from_time: int | None, at_end: bool) -> Offsets:
    if from_time is not None:
        return _offsets_at(cluster, bounds, from_time)
    if offset is None:
        return dict(bounds.latest if at_end else bounds.earliest)
    if offset < 0:
        return {where: max(bounds.earliest[where], end + offset) for where, end in bounds.latest.items()}
    for where, earliest in bounds.earliest.items():
        latest = bounds.latest[where]
        if not earliest <= offset <= latest:
            raise ConfigError(
                f"Partition {where} has no offset {offset}: it begins at {earliest} and ends at {latest}."
            )
    return dict.fromkeys(bounds.earliest, offset)


def _ends(cluster: Cluster, bounds: _Bounds, to_offset: int | None, to_time: int | None, follow: bool) -> Offsets:
    if to_time is not None:
        return _offsets_at(cluster, bounds, to_time)
    if to_offset is not None:
        return {where: to_offset if follow else min(to_offset, end) for where, end in bounds.latest.items()}
    return {} if follow else dict(bounds.latest)


def _offsets_at(cluster: Cluster, bounds: _Bounds, timestamp: int) -> Offsets:
    """The first offset at or after the time; the end where nothing is that late."""
    found = list_offsets(cluster, dict.fromkeys(bounds.latest, timestamp), isolation_level=bounds.isolation_level)
    return {where: bounds.latest[where] if at.offset == NO_OFFSET else at.offset for where, at in found.items()}


def _ahead(starts: Offsets, ends: Offsets) -> Offsets:
    """The starts of the partitions in which there is something to read, or will be."""
    return {where: offset for where, offset in starts.items() if offset < ends.get(where, UNBOUNDED)}


def _print_all(fetcher: Fetcher, ends: Offsets, limit: int, write: Write, is_terminal: bool) -> None:
    """Print up to the ends, which are exclusive; a partition without an end is followed."""
    total = sum(ends[where] - offset for where, offset in fetcher.positions.items() if where in ends)
    printed = 0
    with progress("Reading", total, is_shown=total > 0 and not is_terminal) as bar:
        while fetcher.positions and printed < limit:
            for fetched in fetcher.poll():
                where, position = fetched.where, fetcher.positions[fetched.where]
                end = ends.get(where, UNBOUNDED)
                printed += _print_records(fetched, end, limit - printed, write)
                bar.advance(min(position, end) - fetched.offset)
                if position >= end:
                    fetcher.stop(where)
            sys.stdout.buffer.flush()
    if is_terminal and not printed:
        note("There are no messages there.")


def _print_records(fetched: Fetched, end: int, limit: int, write: Write) -> int:
    """How many were printed."""
    printed = 0
    for record in records_of(fetched):
        if printed == limit or record.offset >= end:
            break
        sys.stdout.buffer.write(write(fetched.where, record))
        printed += 1
    return printed
