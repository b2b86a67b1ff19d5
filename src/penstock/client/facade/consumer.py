"""A consumer for programs: iterate, in a group, with a delivery guarantee that holds; over librdkafka.

    with Consumer("orders", group="billing", value_deserializer=json.loads) as consumer:
        for message in consumer:
            bill(message.value)

A message is done when the caller comes back for the next one, or when the `with` ends without an exception. Only what
is done is committed, so a crash or an exception in the middle makes the message come again: at least once.
`delivery="at_most_once"` commits before it hands out: what a crash interrupts never comes again. `"exactly_once"`
leaves the position to a producer's transaction (transaction.py, process.py).

Rules:
- consumers of one group share the partitions; other groups are not touched. Without a name the group is "default";
- `commit`: "auto" in the background, "sync" or "async" after each message or batch, "manual" by `commit()`;
- `partitions=` reads without a group and remembers nothing;
- it belongs to one thread, as librdkafka's consumer does. Only `close` ends the membership at once;
- a topic that does not exist is an error; passing trouble with brokers is logged, or told to `on_error`, and retried.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from penstock.client.facade.client_error import ClientError, error_of
from penstock.client.facade.consumer_settings import DEFAULT_GROUP, ConsumerSettings, checked_settings
from penstock.client.facade.intake import Intake
from penstock.client.facade.librdkafka import DEFAULT_BOOTSTRAP, confluent_kafka, joined_options
from penstock.client.facade.membership import Membership
from penstock.client.facade.message import Message
from penstock.client.facade.outage import Outage
from penstock.client.facade.progress import Positions, Progress
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition

log = logging.getLogger("penstock.client")

POLL_SECONDS = 0.5
"""One wait; between two of them Ctrl-C is heard."""

ASSIGN_TIMEOUT_SECONDS = 30.0
LOOKUP_TIMEOUT_SECONDS = 10.0
SEEK_TIMEOUT_SECONDS = 10.0
TOPIC_GRACE_SECONDS = 2.0
"""A topic that was made just now may not be known to every broker."""

END_WAIT_MS = 50
"""How long a broker may wait for more when the caller waits for the end; librdkafka's 500 ms would be felt."""

RECONNECT_BACKOFF_MS = 20
RECONNECT_BACKOFF_MAX_MS = 1000
"""The first and the last of a row that doubles, but only without librdkafka's sparse connections. With those it tries
every half of the first, for ever; and waits as long between any two first connections, of which the first consumer of a
group needs two before it can join. The price is a connection to each broker, needed or not."""

_NOTHING_TO_COMMIT = ("_NO_OFFSET",)
_MISSING_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_PASSING = ("_MAX_POLL_EXCEEDED", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT")


class Consumer:
    """Reads topics; `raw` is librdkafka's consumer."""

    def __init__(
        self, topics: str | Iterable[str], bootstrap: str = DEFAULT_BOOTSTRAP, **settings: Unpack[ConsumerSettings]
    ) -> None:
        self.topics = [topics] if isinstance(topics, str) else list(topics)
        self._settings = checked_settings(settings)
        self.is_exactly_once = self._settings["delivery"] == "exactly_once"
        """The position is committed by a producer's transaction only."""
        self._commit_kind = "manual" if self.is_exactly_once else self._settings["commit"]
        self._commits_first = self._settings["delivery"] == "at_most_once"
        self._has_group = "partitions" not in self._settings
        self.group = self._settings.get("group", DEFAULT_GROUP) if self._has_group else ""
        self._progress = Progress()
        self.intake = Intake()
        """What was handed out since the last transaction, with delivery="exactly_once"."""
        self.waiting: deque[Message] = deque()
        """What came and was not handed out yet: while `wait_assigned` waited, or for the async twin."""
        self._is_closed = False
        self._outage = Outage(bootstrap, self._settings.get("on_error"))
        self.raw = self._make_raw(bootstrap)
        self._membership = Membership(self.raw, self._settings, self._before_revoked, self._on_gone)
        try:
            if self._has_group:
                self._membership.subscribe(self.topics)
            else:
                self._membership.take(self.topics, self._settings["partitions"])
        except BaseException:
            self.raw.close()
            raise

    # Messages

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        self.finish()
        while True:
            message = self.receive(POLL_SECONDS)
            if message is not None:
                self.hand([message])
                return message
            if self.is_at_end:
                raise StopIteration

    def poll(self, timeout: float = 1.0) -> Message | None:
        """The next message, or None when none came in time."""
        self.finish()
        deadline = time.monotonic() + timeout
        while True:
            message = self.receive(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
            if message is not None:
                self.hand([message])
                return message
            if time.monotonic() >= deadline or self.is_at_end:
                return None

    def poll_batch(self, size: int, timeout: float = 1.0) -> list[Message]:
        """Up to `size` messages, as many as came in time."""
        self.finish()
        if not self.waiting:
            self.gather(size, timeout)
        batch = self.take(size)
        self.hand(batch)
        return batch

    def poll_ready(self, size: int, timeout: float = 1.0) -> list[Message]:
        """What is there already, up to `size` messages; waits only for the first of them."""
        self.finish()
        if not self.waiting:
            self.bring(size, timeout)
        batch = self.take(size)
        self.hand(batch)
        return batch

    def batches(self, size: int, timeout: float = 1.0) -> Iterator[list[Message]]:
        """Lists of up to `size` messages; each waits at most `timeout` seconds to be full and has at least one."""
        while not self.is_at_end:
            batch = self.poll_batch(size, timeout)
            if batch:
                yield batch

    # Positions

    def commit(self, *messages: Message) -> None:
        """Remember that these messages, or without any all that were handed out, are done; return when it is safe."""
        self._commit(_after(messages) if messages else self._progress.handed, asynchronous=False)

    def commit_async(self, *messages: Message) -> None:
        """The same without waiting; a failure goes to `on_error`."""
        self._commit(_after(messages) if messages else self._progress.handed, asynchronous=True)

    def seek(
        self,
        where: int | datetime | Literal["earliest", "latest"],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> None:
        """Go on reading from an offset, a time, the earliest or the latest message; in all partitions unless named.

        In a group it waits until the group has given us partitions.
        """
        if not isinstance(where, (int, datetime)) and where not in ("earliest", "latest"):
            raise ValueError(f"{where!r} is not an offset, a datetime, 'earliest' or 'latest'.")
        mine = self.wait_assigned()
        wanted = mine if partitions is None else [TopicPartition(*each) for each in partitions]
        _check_mine(wanted, mine)
        for each in self._membership.located(wanted, where):
            self._seek(each)
        self._membership.on_more(wanted)
        self._forget(wanted)

    def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Get nothing from these partitions, or from all, and stay in the group."""
        self.raw.pause(_raw(self.assignment if partitions is None else partitions))

    def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self.raw.resume(_raw(self.assignment if partitions is None else partitions))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer has now."""
        return self._membership.partitions

    def wait_assigned(self, timeout: float = ASSIGN_TIMEOUT_SECONDS) -> list[TopicPartition]:
        """Wait until the group has given us partitions; what is written from then on is read."""
        deadline = time.monotonic() + timeout
        while not (mine := self.assignment):
            if time.monotonic() > deadline:
                words = f"The group gave us no partition of {', '.join(self.topics)} within {timeout:g} s."
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)
            self.bring(1, 0.05)
        return mine

    def committed(self) -> dict[TopicPartition, int | None]:
        """What the group remembers of our partitions: the next offset, None where it remembers nothing."""
        try:
            found = self.raw.committed(_raw(self.assignment), timeout=LOOKUP_TIMEOUT_SECONDS)
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "The positions of the group are not known") from None
        return {TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None for each in found}

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are left to hand out in each of our partitions."""
        handed, committed = self._progress.handed, self.committed() if self._has_group else {}
        return {where: self._lag(where, handed.get(where, committed.get(where))) for where in self.assignment}

    # The end

    def close(self) -> None:
        """What was handed out is done; commit it as chosen, and leave the group. Nothing happens the second time."""
        if self._is_closed:
            return
        try:
            self.finish()
            if self._has_group:
                self._membership.leave()
        finally:
            self._is_closed = True
            self.raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._progress.abandon()
        self.close()

    # The steps of a message; the async twin takes them too.

    def receive(self, timeout: float) -> Message | None:
        """The next message from librdkafka, not handed out yet."""
        return self.waiting.popleft() if self.waiting else self._fetch(timeout)

    def take(self, size: int) -> list[Message]:
        """Up to `size` of what waits."""
        return [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]

    def gather(self, size: int, timeout: float) -> None:
        """Wait until `size` messages came, or the time is over, to be taken later."""
        try:
            got = self.raw.consume(size, timeout)
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "Reading failed") from None
        self.waiting.extend(message for message in map(self._accepted, got) if message is not None)

    def bring(self, count: int, timeout: float) -> None:
        """Wait for a message and take what came with it, up to `count`, to be received later."""
        message = self._fetch(timeout)
        while message is not None:
            self.waiting.append(message)
            message = self._fetch(0) if len(self.waiting) < count else None

    def hand(self, messages: list[Message]) -> None:
        """The caller gets these now."""
        for message in messages:
            self._progress.hand(message.where, message.offset)
            if self.is_exactly_once:
                self.intake.hand(message.where, message.offset)
        if self._commits_first and self._has_group and messages:
            self._progress.finish()
            self._commit(self._progress.take_unsaved(), asynchronous=False)

    def finish(self) -> None:
        """The caller came back: what was handed out is done, and committed as chosen."""
        self.mark_done()
        if self._commit_kind == "manual" or not self._has_group:
            return
        unsaved = self._progress.take_unsaved()
        if self._commit_kind == "auto":
            self._store(unsaved)
        else:
            self._commit(unsaved, asynchronous=self._commit_kind == "async")

    def mark_done(self) -> None:
        """What was handed out is done; `finish` will commit it."""
        self._progress.finish()

    @property
    def is_at_end(self) -> bool:
        return self._settings["stop_at_end"] and not self.waiting and self._membership.is_at_end

    def _fetch(self, timeout: float) -> Message | None:
        try:
            raw = self.raw.poll(timeout)
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "Reading failed") from None
        return None if raw is None else self._accepted(raw)

    def _accepted(self, raw: confluent_kafka.Message) -> Message | None:
        error = raw.error()
        if error is not None:
            self._on_error_in_place(error, raw)
            return None
        if self._outage.is_on:
            self._outage.on_message()
        settings = self._settings
        message = Message(raw, settings.get("key_deserializer"), settings.get("value_deserializer"))
        if settings["stop_at_end"]:
            self._membership.on_more([message.where])
        return message

    def _on_error_in_place(self, error: confluent_kafka.KafkaError, raw: confluent_kafka.Message) -> None:
        """librdkafka gave an error where a message would be."""
        name, topic = error.name(), raw.topic()
        if name == "_PARTITION_EOF":
            self._membership.on_end(TopicPartition(str(topic), int(raw.partition() or 0)))
        elif name in _PASSING and not error.fatal():
            self._outage.tell(ClientError(error, "Reading was interrupted"))
        elif name not in _MISSING_TOPIC or topic is None or not self._does_topic_appear(topic):
            raise ClientError(error, f"{topic or ', '.join(self.topics)!r} cannot be read")

    def _does_topic_appear(self, topic: str) -> bool:
        deadline = time.monotonic() + TOPIC_GRACE_SECONDS
        while time.monotonic() < deadline:
            try:
                found = self.raw.list_topics(topic, timeout=TOPIC_GRACE_SECONDS).topics[topic]
            except confluent_kafka.KafkaException:
                continue
            if found.partitions:
                return True
            time.sleep(0.1)
        return False

    # For a producer's transaction

    def taken(self) -> tuple[Positions, Any]:
        """Where to go on after what was handed out since the last transaction, and who we are in the group.

        KafkaError when some of it is another consumer's by now. librdkafka enters a new generation only inside a poll,
        so who we are is who we were when the messages came, and the broker refuses us if the group has moved on. But a
        member that was thrown out has no id, and Kafka's brokers take offsets from such a one: that is refused here.
        """
        member = self.raw.consumer_group_metadata()
        if self.intake.lost or not self.raw.memberid():
            gone = ", ".join(map(str, self.intake.lost or self.intake.starts))
            words = f"The group gave {gone} to another consumer in the middle of the transaction."
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, words)
        return self.intake.ends, member

    def on_committed(self) -> None:
        """The transaction with all that was handed out is committed."""
        self.intake.clear()

    def rewind(self) -> None:
        """Go back to the first message that was handed out since the last transaction.

        Not in a partition that went away meanwhile: if it came back, it began where its last owner committed.
        """
        kept = set(self.assignment).difference(self.intake.lost)
        starts = {where: offset for where, offset in self.intake.starts.items() if where in kept}
        self.intake.clear()
        self._progress.abandon()
        for where, offset in starts.items():
            self._seek(confluent_kafka.TopicPartition(*where, offset))
        self._membership.on_more(starts)
        self._forget(list(starts))

    def _on_gone(self, gone: list[TopicPartition]) -> None:
        self.intake.drop(gone)
        self._forget(gone)

    # Commits and seeks

    def _store(self, positions: Positions) -> None:
        """Mark for the commit in the background; a partition that went away meanwhile is its new owner's to commit."""
        for where, offset in positions.items():
            try:
                self.raw.store_offsets(offsets=[confluent_kafka.TopicPartition(*where, offset)])
            except confluent_kafka.KafkaException as failure:
                log.debug("the position of %s was not kept: %s", where, failure)

    def _commit(self, positions: Positions, *, asynchronous: bool) -> None:
        if self.is_exactly_once:
            raise ValueError("With delivery='exactly_once' the position is committed by a producer's transaction.")
        if not self._has_group:
            raise ValueError("Nothing can be committed without a group. Give the consumer a group, not partitions.")
        if not positions:
            return
        offsets = [confluent_kafka.TopicPartition(*where, offset) for where, offset in positions.items()]
        try:
            if asynchronous:
                self.raw.commit(offsets=offsets, asynchronous=True)
                return
            for done in self.raw.commit(offsets=offsets, asynchronous=False):
                if done.error is not None:
                    raise ClientError(done.error, f"The commit of {done.topic}-{done.partition} failed")
        except confluent_kafka.KafkaException as failure:
            error = error_of(failure, "The commit failed")
            if error.name not in _NOTHING_TO_COMMIT:
                raise error from None

    def _on_commit(self, error: confluent_kafka.KafkaError | None, offsets: list[Any]) -> None:
        """Told by librdkafka of commits that nobody waited for."""
        if error is not None and error.name() not in _NOTHING_TO_COMMIT:
            self._tell(ClientError(error, "A commit failed"))

    def _before_revoked(self, gone: list[TopicPartition]) -> None:
        """Commits that were only sent, or are still to be sent, must be there before the next owner asks."""
        if self._commit_kind not in ("auto", "async") or self._commits_first:
            return
        done = self._progress.done
        try:
            self._commit({where: done[where] for where in gone if where in done}, asynchronous=False)
        except ClientError as error:
            self._tell(error)  # the next owner reads again what is not committed: at least once

    def _forget(self, gone: list[TopicPartition]) -> None:
        self._progress.drop(gone)
        self.waiting = deque(message for message in self.waiting if message.where not in gone)

    def _seek(self, target: confluent_kafka.TopicPartition) -> None:
        """librdkafka refuses until it has begun to fetch a partition, which it does in its own time."""
        deadline = time.monotonic() + SEEK_TIMEOUT_SECONDS
        while True:
            try:
                self.raw.seek(target)
                return
            except confluent_kafka.KafkaException as failure:
                error = error_of(failure, f"Seeking in {target.topic}-{target.partition} failed")
                if error.name != "_STATE" or time.monotonic() > deadline:
                    raise error from None
            time.sleep(0.005)

    def _lag(self, where: TopicPartition, position: int | None) -> int:
        """From the ends that the last fetch told: a question to the broker would wait behind the fetch under way."""
        partition = confluent_kafka.TopicPartition(*where)
        low, high = self.raw.get_watermark_offsets(partition, cached=True)
        if high < 0:
            low, high = self.raw.get_watermark_offsets(partition, timeout=LOOKUP_TIMEOUT_SECONDS)
        if position is None:
            position = self.raw.position([partition])[0].offset
        if position < 0:
            position = low if self._settings["start"] == "earliest" else high
        return max(0, high - max(position, low))

    def _tell(self, error: KafkaError) -> None:
        on_error = self._settings.get("on_error")
        if on_error is not None:
            on_error(error)
        else:
            log.warning("%s", error)

    def _make_raw(self, bootstrap: str) -> confluent_kafka.Consumer:
        settings = self._settings
        is_auto = self._commit_kind == "auto" and not self._commits_first and self._has_group
        ours: dict[str, Any] = {
            "group.id": settings.get("group", DEFAULT_GROUP),
            "auto.offset.reset": "latest" if settings["start"] == "latest" else "earliest",
            "enable.auto.commit": is_auto,
            "enable.auto.offset.store": False,
            "enable.partition.eof": settings["stop_at_end"],
            "enable.sparse.connections": False,
            "reconnect.backoff.ms": RECONNECT_BACKOFF_MS,
            "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
            "on_commit": self._on_commit,
        }
        if settings["stop_at_end"]:
            ours["fetch.wait.max.ms"] = END_WAIT_MS
        config = joined_options(bootstrap, ours, settings.get("options"), self._outage)
        try:
            return confluent_kafka.Consumer(config)
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "The consumer was not made") from None


def _after(messages: Iterable[Message]) -> Positions:
    """The positions after these messages."""
    positions: dict[TopicPartition, int] = {}
    for message in messages:
        positions[message.where] = max(positions.get(message.where, 0), message.offset + 1)
    return positions


def _raw(partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*where) for where in partitions]


def _check_mine(wanted: list[TopicPartition], mine: list[TopicPartition]) -> None:
    for where in wanted:
        if where not in mine:
            have = ", ".join(map(str, mine))
            raise ValueError(f"{where} is not one of this consumer's partitions, which are {have}.")
