"""`penstock produce`: lines of standard input or of a file become messages.

Nothing is lost silently: every message is confirmed by the broker (unless --acks 0), what went where is said at the
end on standard error, and the exit status is 1 when a message was not written. That is said too when Ctrl-C or SIGTERM
ends it before its input does; messages that no broker has confirmed by then are counted apart.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType
from typing import IO

import click

from penstock.cli.bootstrap import TIMEOUT_SECONDS, bootstrap_option, complete_topic, connect, json_option
from penstock.cli.lines import read_lines
from penstock.cli.message_json import Message, from_json
from penstock.cli.output import note, plural, progress, show_json
from penstock.client.partitioner import PARTITIONERS
from penstock.client.producer import ACKS_ALL, DELIVERY_TIMEOUT_MS, Delivery, Producer
from penstock.errors import ConfigError, KafkaError
from penstock.types import TopicPartition
from penstock.wire.record import Headers
from penstock.wire.records import Codec

PROGRESS_BYTES = 64 * 1024
"""Between two moves of the progress bar: each costs as much as a message."""

ACKS = {"0": 0, "1": 1, "all": ACKS_ALL, "-1": ACKS_ALL}

Parse = Callable[[bytes], Message]


@click.command("produce")
@click.argument("topic", shell_complete=complete_topic)
@click.option("--key", help="The key of every message.")
@click.option("--key-separator", metavar="X", help="A line is a key, then X, then the value.")
@click.option("--header", "headers", multiple=True, metavar="KEY=VALUE", help="For every message; may be repeated.")
@click.option("--partition", type=click.IntRange(min=0), help="Where every message goes.  [default: by its key]")
@click.option(
    "--partitioner",
    type=click.Choice(list(PARTITIONERS)),
    default="murmur2_random",
    show_default=True,
    help="How a key chooses: as Java's clients do, as librdkafka's do, or not at all.",
)
@click.option(
    "--compression", type=click.Choice([codec.name.lower() for codec in Codec]), default="none", show_default=True
)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Who must have it.")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="Instead of standard input.")
@click.option("--format", "format_", type=click.Choice(["lines", "json"]), default="lines", show_default=True)
@click.option(
    "--timeout", type=TIMEOUT_SECONDS, default=DELIVERY_TIMEOUT_MS // 1000, show_default=True, metavar="SECONDS",
    help="How long to try to deliver a message, also to a broker that was lost.",
)  # fmt: skip
@click.option("--create", is_flag=True, help="Let the broker create the topic if it is not there.")
@bootstrap_option
@json_option
def command(
    topic: str,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    partitioner: str,
    compression: str,
    acks: str,
    path: str | None,
    format_: str,
    timeout: int,
    create: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Send messages, one for each line of standard input or of a file.

    With --format json a line is {"value": ..., "key": ..., "headers": {...}, "timestamp": ms, "partition": n}, of which
    only the value is needed: what `penstock consume --format json` prints can be sent again.

    When the broker is lost it is tried again, up to --timeout for each message, and that is said.

    \b
      echo hello | penstock produce greetings
      penstock produce orders --key-separator : --file orders.txt --compression zstd
    """
    parse = _parser(key, key_separator, _headers(headers), partition, format_)
    tally = Tally()
    with ExitStack() as stack:
        stack.enter_context(_sigterm_as_exit())
        cluster = stack.enter_context(connect(bootstrap, timeout * 1000))
        producer = Producer(
            cluster,
            on_delivery=tally.on_delivery,
            acks=ACKS[acks],
            codec=Codec[compression.upper()],
            partitioner=PARTITIONERS[partitioner](),
            delivery_timeout_ms=timeout * 1000,
            may_create_topics=create,
        )
        cluster.retry(lambda deadline: cluster.topic(topic, deadline=deadline, may_create=create))
        stream = stack.enter_context(open(path, "rb")) if path else sys.stdin.buffer
        if path is None and sys.stdin.isatty():
            note(f"Each line is a message to {topic}. Ctrl-D ends.")
        try:
            complaint = _send_all(producer, topic, stream, parse, tally)
        except (KeyboardInterrupt, SystemExit):
            tally.show(topic, as_json)
            raise
    tally.show(topic, as_json)
    if complaint is not None:
        raise ConfigError(complaint)
    if tally.failed:
        sys.exit(1)


class Tally:
    """What became of the messages."""

    def __init__(self) -> None:
        self.sent = 0
        """Messages given to the producer; what is neither written nor failed was interrupted."""
        self.written: dict[TopicPartition, list[Delivery]] = defaultdict(list)
        self.failed = 0
        self.reasons: dict[str, int] = defaultdict(int)

    def on_delivery(self, delivery: Delivery) -> None:
        if delivery.error is None:
            neighbours = self.written[delivery.where]
            if neighbours and neighbours[-1].base_offset + neighbours[-1].count == delivery.base_offset >= 0:
                last = neighbours.pop()
                delivery = Delivery(last.where, last.count + delivery.count, last.base_offset)
            neighbours.append(delivery)
        else:
            self.failed += delivery.count
            self.reasons[str(delivery.error)] += delivery.count

    def count(self, where: TopicPartition) -> int:
        return sum(delivery.count for delivery in self.written[where])

    def show(self, topic: str, as_json: bool) -> None:
        partitions = sorted(self.written)
        total = sum(map(self.count, partitions))
        unconfirmed = max(0, self.sent - total - self.failed)
        if as_json:
            counts = {"written": total, "failed": self.failed, "unconfirmed": unconfirmed}
            show_json({"topic": topic, **counts, "partitions": list(map(self._partition_json, partitions))})
        else:
            note(f"{plural(total, 'message')} written to {topic}{':' if total else '.'}")
            for where in partitions:
                note(f"  partition {where.partition}: {plural(self.count(where), 'message')}{self._offsets(where)}")
        for reason, count in self.reasons.items():
            note(f"{plural(count, 'message')} NOT written: {reason}")
        if unconfirmed:
            note(f"{plural(unconfirmed, 'message')} not confirmed: interrupted before the broker had answered.")

    def _partition_json(self, where: TopicPartition) -> dict[str, int | None]:
        """The offsets are null when the broker did not say (--acks 0); messages of others may stand between them."""
        first, last = self.written[where][0], self.written[where][-1]
        first_offset, last_offset = first.base_offset, last.base_offset + last.count - 1
        is_known = first.base_offset >= 0 and last.base_offset >= 0
        return {
            "partition": where.partition,
            "count": self.count(where),
            "first_offset": first_offset if is_known else None,
            "last_offset": last_offset if is_known else None,
        }

    def _offsets(self, where: TopicPartition) -> str:
        """Where they are, when they stand together and the broker said so."""
        first, *others = self.written[where]
        if others or first.base_offset < 0:
            return ""
        if first.count == 1:
            return f", offset {first.base_offset}"
        return f", offsets {first.base_offset} to {first.base_offset + first.count - 1}"


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, with its own exit status."""

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _send_all(producer: Producer, topic: str, stream: IO[bytes], parse: Parse, tally: Tally) -> str | None:
    """Send every line; what was wrong with one of them, at which sending stopped."""
    total = os.fstat(stream.fileno()).st_size if stream is not sys.stdin.buffer else 0
    unshown = 0
    with progress(f"Sending to {topic}", total, is_bytes=True, is_shown=total > 0) as bar:
        for number, line in enumerate(_lines(producer, stream), 1):
            try:
                _send(producer, topic, parse(line))
            except (ValueError, KafkaError) as error:
                producer.flush()
                others = "The lines before it were sent, no line after it was." if number > 1 else "Nothing was sent."
                return f"Line {number} cannot be sent: {str(error).removesuffix('.')}. {others}"
            tally.sent += 1
            unshown += len(line) + 1
            if unshown >= PROGRESS_BYTES:
                bar.advance(unshown)
                unshown = 0
        producer.flush()
    return None


def _send(producer: Producer, topic: str, message: Message) -> None:
    producer.send(
        topic,
        message.value,
        key=message.key,
        headers=message.headers,
        timestamp_ms=message.timestamp_ms,
        partition=message.partition,
    )


def _lines(producer: Producer, stream: IO[bytes]) -> Iterator[bytes]:
    """The lines; while there are none for the moment, what was gathered goes out."""
    for line in read_lines(stream):
        if line is None:
            producer.flush()
        else:
            yield line


def _parser(key: str | None, separator: str | None, headers: Headers, partition: int | None, format_: str) -> Parse:
    if format_ == "json":
        if key is not None or separator is not None:
            raise click.UsageError("With --format json the key is in the line: leave --key and --key-separator out.")
        return lambda line: _filled_in(from_json(line), headers, partition)
    if key is not None and separator is not None:
        raise click.UsageError("Give --key or --key-separator, not both.")
    if separator is None:
        fixed = None if key is None else os.fsencode(key)  # the bytes that were typed, text or not
        return lambda line: Message(line, fixed, headers, None, partition)
    mark = _unescape(separator)

    def split(line: bytes) -> Message:
        found, middle, value = line.partition(mark)
        if not middle:
            raise ValueError(f"it has no {separator!r} between key and value")
        return Message(value, found, headers, None, partition)

    return split


def _filled_in(message: Message, headers: Headers, partition: int | None) -> Message:
    """What the line leaves open comes from the command line."""
    chosen = partition if message.partition is None else message.partition
    return replace(message, headers=message.headers + headers, partition=chosen)


def _headers(pairs: tuple[str, ...]) -> Headers:
    headers = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not key=value.", param_hint="--header")
        if not _is_text(name):
            raise click.BadParameter(f"The key of {pair!r} is not text in UTF-8.", param_hint="--header")
        headers.append((name, os.fsencode(value)))
    return tuple(headers)


def _is_text(argument: str) -> bool:
    """Bytes that are not UTF-8 are in an argument as lone surrogates (PEP 383)."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _unescape(text: str) -> bytes:
    r"""\\t is a tab: shells make it hard to write one."""
    if not text:
        raise click.BadParameter("It must not be empty.", param_hint="--key-separator")
    return os.fsencode(text.replace("\\t", "\t"))
