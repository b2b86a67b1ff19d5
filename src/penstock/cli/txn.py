"""`penstock txn`: list and describe transactions, and abort one whose producer does not end it.

While a transaction is open, readers of committed messages wait in its partitions. `list --longer-than 60` finds those
that have been open for long, `abort` ends one: its producer is out, and learns it with its next request.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Any

import click

from penstock.cli.bootstrap import bootstrap_option, connect, json_option
from penstock.cli.output import note, plural, show_json, show_table
from penstock.client.transactions import ListedTransaction, TransactionInfo, Transactions, by_topic

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")


@click.group("txn")
def command() -> None:
    """List and describe transactions, and abort one."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, False), help="Only these; may be repeated.")
@click.option("--longer-than", type=click.IntRange(0), metavar="SECONDS", help="Only those open for longer.")
@bootstrap_option
@json_option
def list_transactions(states: tuple[str, ...], longer_than: int | None, bootstrap: str, as_json: bool) -> None:
    """List transactional ids. In a pipe: one id on each line."""
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
@click.argument("transactional_id", metavar="ID")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def abort(transactional_id: str, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Abort the transaction of an id, and put its producer out. Asks first on a terminal."""
    if not yes and sys.stdin.isatty():
        question = f"Abort the transaction of {transactional_id} and put its producer out?"
        if not click.confirm(question, err=True):
            sys.exit(1)
    with connect(bootstrap) as cluster:
        before = Transactions(cluster).abort(transactional_id)
    if as_json:
        show_json({"aborted": before.is_open, "before": _full(before)})
    elif not before.is_open:
        click.echo(f"{transactional_id} had no open transaction; its producer is out.")
    else:
        click.echo(f"Aborted the transaction of {transactional_id} in {plural(len(before.partitions), 'partition')}.")


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


def _full(info: TransactionInfo) -> dict[str, Any]:
    started = info.started_ms
    return {
        "transactional_id": info.transactional_id,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "timeout_ms": info.timeout_ms,
        "started": None if started is None else datetime.fromtimestamp(started / 1000, UTC).isoformat(),
        "coordinator": info.coordinator,
        "partitions": [{"topic": where.topic, "partition": where.partition} for where in info.partitions],
    }
