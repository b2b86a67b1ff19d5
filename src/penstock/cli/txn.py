"""`penstock txn`: list and describe transactions, and abort one whose producer does not end it.

While a transaction is open, readers of committed messages wait in its partitions. `list --longer-than 60` finds those
that have been open for long, `abort` ends one: its producer is out, and learns it with its next request. A producer
that has nothing open is left alone, unless --fence says otherwise.

`list --topic` asks the partitions instead of the coordinators. A transaction that only they know hangs: no timeout ends
it, but `abort --topic --partition --start-offset` does.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Any

import click

from penstock.cli.bootstrap import bootstrap_option, complete_topic, connect, json_option
from penstock.cli.moment import MAX_MS
from penstock.cli.output import note, plural, show_json, show_table
from penstock.client.transactions import (
    ABORTED,
    ABORTING,
    COMMITTED,
    COMMITTING,
    ONGOING,
    ListedTransaction,
    OpenTransaction,
    TransactionInfo,
    Transactions,
    by_topic,
)
from penstock.types import TopicPartition

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
SECONDS = click.IntRange(0, (2**63 - 1) // 1000)
"""Kafka counts in milliseconds, as int64."""


@click.group("txn")
def command() -> None:
    """List and describe transactions, and abort one."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, False), help="Only these; may be repeated.")
@click.option("--longer-than", type=SECONDS, metavar="SECONDS", help="Only those open for longer.")
@click.option("--topic", shell_complete=complete_topic, help="What is open in its partitions, as these know it.")
@bootstrap_option
@json_option
def list_transactions(
    states: tuple[str, ...], longer_than: int | None, topic: str | None, bootstrap: str, as_json: bool
) -> None:
    """List transactional ids. In a pipe: one id on each line.

    With --topic: the transactions that are open in its partitions, also those that hang because no coordinator knows
    them."""
    if topic is not None:
        if states or longer_than is not None:
            raise click.UsageError("--topic shows all that is open: no --state or --longer-than with it.")
        _list_open(topic, bootstrap, as_json)
        return
    with connect(bootstrap) as cluster:
        longer_than_ms = -1 if longer_than is None else 1000 * longer_than
        listed = Transactions(cluster).list_transactions(states, longer_than_ms)
    if as_json:
        show_json([_summary(each) for each in listed])
    elif not sys.stdout.isatty():
        for each in listed:
            click.echo(each.transactional_id)
    elif not listed:
        note("There are no such transactions. Producers with a transactional id make them.")
    else:
        rows = [(each.transactional_id, each.state, each.producer_id) for each in listed]
        show_table(("transactional id", "state", "producer id"), rows, numbers=("producer id",))


def _list_open(topic: str, bootstrap: str, as_json: bool) -> None:
    with connect(bootstrap) as cluster:
        opened = Transactions(cluster).open_in(topic)
    if as_json:
        show_json([_open(each) for each in opened])
    elif not opened and sys.stdout.isatty():
        note(f"No transaction is open in {topic}.")
    else:
        columns = ("partition", "start offset", "producer id", "epoch", "last write")
        rows = [
            (
                each.where.partition,
                each.start_offset,
                each.producer_id,
                each.producer_epoch,
                _moment(each.last_timestamp),
            )
            for each in opened
        ]
        show_table(columns, rows, numbers=columns[:-1])


@command.command("describe")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@bootstrap_option
@json_option
def describe(ids: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show the state of transactions, since when they are open, and their partitions."""
    with connect(bootstrap) as cluster:
        found = Transactions(cluster).describe(list(dict.fromkeys(ids)))
    if as_json:
        show_json([_full(each) for each in found])
        return
    for number, info in enumerate(found):
        if number:
            click.echo()
        _show(info)


@command.command("abort")
@click.argument("transactional_id", metavar="[ID]", required=False)
@click.option("--topic", shell_complete=complete_topic, help="Where one hangs that has no ID.")
@click.option("--partition", type=click.IntRange(0), help="Where in the topic.")
@click.option("--start-offset", type=click.IntRange(0), help="Its first message, as `list --topic` shows it.")
@click.option("--fence", is_flag=True, help="Put the producer of the ID out also when it has nothing open.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    fence: bool,
    yes: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Abort the transaction of an ID, and put its producer out. Asks first on a terminal.

    Where nothing is open, or it is being committed, nothing is done and the exit status is 1.

    One that hangs, because no coordinator knows it, has no ID: it is named by its partition and its first offset."""
    if transactional_id is not None and topic is None and partition is None and start_offset is None:
        _abort_id(transactional_id, fence, yes, bootstrap, as_json)
    elif fence:
        raise click.UsageError("--fence goes with an ID, which has a producer.")
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        _abort_at(TopicPartition(topic, partition), start_offset, yes, bootstrap, as_json)
    else:
        raise click.UsageError("Name a transaction by its ID, or by --topic, --partition and --start-offset.")


def _abort_id(transactional_id: str, fence: bool, yes: bool, bootstrap: str, as_json: bool) -> None:
    _ask(f"Abort the transaction of {transactional_id} and put its producer out?", yes)
    with connect(bootstrap) as cluster:
        transactions = Transactions(cluster)
        (before,) = transactions.describe([transactional_id])
        is_fenced = fence or before.state == ONGOING
        outcome = transactions.abort(before) if is_fenced else None
    is_aborted = outcome == ABORTED or (not is_fenced and before.state in ABORTING)
    if as_json:
        show_json({"aborted": is_aborted, "fenced": is_fenced, "before": _full(before)})
    else:
        click.echo(_fenced(before, outcome) if is_fenced else _untouched(before))
    if not is_aborted and not (fence and outcome is None):
        sys.exit(1)


def _fenced(before: TransactionInfo, outcome: str | None) -> str:
    """What became of it; None is the outcome where nothing was open when the coordinator was asked."""
    name = before.transactional_id
    if outcome == ABORTED:
        return f"Aborted the transaction of {name} in {plural(len(before.partitions), 'partition')}."
    if outcome == COMMITTED:
        return f"The transaction of {name} is committed, not aborted: its producer was faster. That one is out now."
    if before.is_open:
        return f"The transaction of {name} ended by itself, before it could be aborted; its producer is out."
    return f"{name} had no open transaction; its producer is out."


def _untouched(before: TransactionInfo) -> str:
    name = before.transactional_id
    if before.state in ABORTING:
        return f"The transaction of {name} is being aborted already."
    if before.state == COMMITTING:
        return f"The transaction of {name} is being committed, which cannot be undone: nothing to abort."
    return f"{name} has no open transaction: nothing to abort. --fence puts its producer out all the same."


def _abort_at(where: TopicPartition, start_offset: int, yes: bool, bootstrap: str, as_json: bool) -> None:
    _ask(f"Abort the transaction that began at offset {start_offset} of {where}?", yes)
    with connect(bootstrap) as cluster:
        before = Transactions(cluster).abort_at(where, start_offset)
    if as_json:
        show_json({"aborted": True, "before": _open(before)})
    else:
        click.echo(
            f"Aborted the transaction of producer {before.producer_id} in {where} from offset {start_offset} on."
        )


def _ask(question: str, yes: bool) -> None:
    if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        sys.exit(1)


def _show(info: TransactionInfo) -> None:
    click.secho(info.transactional_id, bold=True, nl=False)
    facts = [info.state, f"producer {info.producer_id} epoch {info.producer_epoch}", f"timeout {info.timeout_ms} ms"]
    if info.is_open and info.started_ms is not None:
        facts.append(f"open for {max(0.0, time.time() - info.started_ms / 1000):.1f} s")
    click.echo(f"  {', '.join(facts)}, coordinator {info.coordinator}")
    if info.partitions:
        rows = [(topic, ", ".join(map(str, numbers))) for topic, numbers in by_topic(info.partitions).items()]
        show_table(("topic", "partitions"), rows)


def _summary(each: ListedTransaction) -> dict[str, Any]:
    return {"transactional_id": each.transactional_id, "state": each.state, "producer_id": each.producer_id}


def _open(each: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": each.where.topic,
        "partition": each.where.partition,
        "start_offset": each.start_offset,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "last_write": _moment(each.last_timestamp),
    }


def _full(info: TransactionInfo) -> dict[str, Any]:
    started = info.started_ms
    return {
        "transactional_id": info.transactional_id,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "timeout_ms": info.timeout_ms,
        "started": None if started is None else _moment(started),
        "coordinator": info.coordinator,
        "partitions": [{"topic": where.topic, "partition": where.partition} for where in info.partitions],
    }


def _moment(milliseconds: int) -> str | None:
    """None for what is no date: a producer may give its messages any time."""
    if not 0 <= milliseconds <= MAX_MS:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
