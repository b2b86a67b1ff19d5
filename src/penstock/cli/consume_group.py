"""`penstock consume --group`: print messages as a member of a group, which remembers how far it has printed.

It begins where the group is. Where the group remembers nothing it begins as told, or else at the beginning, and with
--follow at the end. What is printed is committed in the background and at the end, never before: what a crash
interrupts is printed again. Other members of the group get the other partitions; while they have all, this one waits.

Joining is librdkafka's work (`penstock.Consumer`, extra `client`).
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from penstock.cli.message_format import Write
from penstock.cli.output import note
from penstock.errors import ConfigError
from penstock.wire.record import Record

if TYPE_CHECKING:
    from penstock.client.facade.consumer import Consumer
    from penstock.client.facade.message import Message

BATCH_SIZE = 500
"""Written together; until all of it is out, none of it is committed."""

POLL_SECONDS = 0.5
"""One wait; between two of them Ctrl-C is heard."""

Start = Literal["earliest", "latest"] | datetime


def start_of(from_beginning: bool, from_time_ms: int | None, follow: bool) -> Start:
    """Where to begin when the group remembers nothing."""
    if from_time_ms is not None:
        return datetime.fromtimestamp(from_time_ms / 1000, UTC)
    return "latest" if follow and not from_beginning else "earliest"


def print_as_member(
    topic: str, bootstrap: str, group: str, *, start: Start, follow: bool, limit: int, write: Write
) -> int:
    """Print up to `limit` messages that the group has not done yet, without `follow` up to the end; how many."""
    with _join(topic, bootstrap, group, start, follow) as consumer:
        left = limit
        while left and not consumer.is_at_end:
            consumer.finish()
            consumer.bring(min(left, BATCH_SIZE), POLL_SECONDS)
            batch = consumer.take(min(left, BATCH_SIZE))
            consumer.hand(batch)
            for message in batch:
                sys.stdout.buffer.write(write(message.where, _record(message)))
            sys.stdout.buffer.flush()
            left -= len(batch)
    return limit - left


def _join(topic: str, bootstrap: str, group: str, start: Start, follow: bool) -> Consumer:
    """An empty name is the default group, as in `penstock.Consumer`."""
    try:
        from penstock.client.facade.consumer import Consumer
        from penstock.client.facade.consumer_settings import DEFAULT_GROUP
    except ImportError as error:
        if error.__cause__ is None:  # something else is broken
            raise
        words = "--group needs confluent-kafka. Install it with: pip install 'penstock[client]'"
        raise ConfigError(words) from error
    return Consumer(
        topic,
        bootstrap,
        group=group or DEFAULT_GROUP,
        start=start,
        stop_at_end=not follow,
        on_error=lambda error: note(f"penstock: {error}"),
    )


def _record(message: Message) -> Record:
    raw = message.raw
    return Record(message.offset, message.timestamp, raw.key(), raw.value(), tuple(message.headers))
