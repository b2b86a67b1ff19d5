"""`penstock consume --group`: print messages as a member of a group, which remembers how far it has printed.

It begins where the group is. Where the group remembers nothing it begins as told, or else at the beginning, and with
--follow at the end. What is printed is committed in the background and at the end, never before: what a crash
interrupts is printed again. Other members of the group get the other partitions; while they have all, this one waits.

librdkafka looks for a lost broker without end and tells of each attempt. So when it says that one is lost, we look for
one ourselves, with the words and for the time of all other commands.

Joining is librdkafka's work (`penstock.Consumer`, extra `client`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from penstock.cli.message_format import Write
from penstock.cli.output import note
from penstock.client.cluster import Cluster
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.wire.record import Record

if TYPE_CHECKING:
    from penstock.client.facade.consumer import Consumer
    from penstock.client.facade.message import Message

BATCH_SIZE = 500
"""Written together; until all of it is out, none of it is committed."""

POLL_SECONDS = 0.5
"""One wait; between two of them Ctrl-C is heard."""

_LOST = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)

Start = Literal["earliest", "latest"] | datetime


def start_of(from_beginning: bool, from_time_ms: int | None, follow: bool) -> Start:
    """Where to begin when the group remembers nothing."""
    if from_time_ms is not None:
        return datetime.fromtimestamp(from_time_ms / 1000, UTC)
    return "latest" if follow and not from_beginning else "earliest"


def print_as_member(
    topic: str,
    bootstrap: str,
    group: str,
    cluster: Cluster,
    *,
    start: Start,
    follow: bool,
    limit: int,
    write: Write,
    patience_ms: float | None,
    isolation: str,
) -> int:
    """Print up to `limit` messages that the group has not done yet, without `follow` up to the end; how many."""
    trouble = _Trouble(cluster, patience_ms)
    consumer = _join(topic, bootstrap, group, start, follow, trouble.on_error, isolation)
    with ExitStack() as stack:
        stack.push(lambda *how: _leave(consumer, trouble, how))
        left = limit
        while left and not consumer.is_at_end:
            consumer.finish()
            consumer.bring(min(left, BATCH_SIZE), POLL_SECONDS)
            batch = consumer.take(min(left, BATCH_SIZE))
            if not batch:
                trouble.wait_until_over()
            consumer.hand(batch)
            for message in batch:
                sys.stdout.buffer.write(write(message.where, _record(message)))
            sys.stdout.buffer.flush()
            left -= len(batch)
    return limit - left


class _Trouble:
    """What librdkafka tells of that no call failed for."""

    def __init__(self, cluster: Cluster, patience_ms: float | None) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms
        self.is_lost = False
        """Whether a broker was lost that has not been found again."""

    def on_error(self, error: KafkaError) -> None:
        if error.code in _LOST:
            self.is_lost = True
        elif not self.is_lost:  # else it comes of that
            note(f"penstock: {error}")

    def wait_until_over(self) -> None:
        """Return when a broker answers; KafkaError when none does for as long as we shall look."""
        if self.is_lost:
            self._cluster.retry(lambda deadline: self._cluster.refresh((), deadline=deadline), self._patience_ms)
            self.is_lost = False


def _leave(consumer: Consumer, trouble: _Trouble, how: tuple[Any, ...]) -> None:
    """Close it. librdkafka waits long for a broker that is to hear of it; when that one is lost, we do not."""
    if trouble.is_lost:
        threading.Thread(target=consumer.__exit__, args=how, daemon=True).start()
    else:
        consumer.__exit__(*how)


def _join(
    topic: str,
    bootstrap: str,
    group: str,
    start: Start,
    follow: bool,
    on_error: Callable[[KafkaError], None],
    isolation: str,
) -> Consumer:
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
        on_error=on_error,
        options={"isolation.level": isolation},
    )


def _record(message: Message) -> Record:
    raw = message.raw
    return Record(message.offset, message.timestamp, raw.key(), raw.value(), tuple(message.headers))
