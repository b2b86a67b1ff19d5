"""Fetch, versions 4 to 18: slices of the logs, now or when there is enough.

Answers at once when there are `min_bytes`, an error, a divergence, or nothing to wait for; else waits up to
`max_wait_ms` in the purgatory and reads again. Records go out as slices of segment files. The first partition that
has data gives at least one batch even when it is larger than the limits, so that a consumer can always go on.
Consumers see what is committed; a fetch as follower is refused until this broker has followers.

Isolation level read_committed ends at the last stable offset and lists the aborted transactions whose batches are in
what it returns; the client leaves those out. Kafka's list may hold some that begin after it too. All offsets of one
partition in one answer are of one moment (B14).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.context import Call, Context, Later
from penstock.broker.purgatory import Waiter
from penstock.broker.replicas.partition import Offsets, Partition
from penstock.broker.replicas.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    UNSENT,
    FetchPartition,
    FetchSession,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1
CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2
"""Kafka's own tools: reads up to the log's end."""


def handle(context: Context, call: Call, request: FetchRequest) -> FetchResponse | Later:
    try:
        fetch = _Fetch(context, call, request)
    except KafkaError as error:  # of the session: the whole request is refused
        return FetchResponse(error_code=error.code)
    fetch.read()
    if fetch.is_enough or request.max_wait_ms <= 0:
        return fetch.response()
    return fetch.wait()


class _Fetch:
    """One request while it is being answered."""

    __slots__ = (
        "_context",
        "_is_committed",
        "_max_bytes",
        "_missing_bytes",
        "_partitions",
        "_request",
        "_results",
        "_session",
        "_uses_ids",
        "is_enough",
    )

    def __init__(self, context: Context, call: Call, request: FetchRequest) -> None:
        self._context = context
        self._request = request
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._uses_ids = call.version >= TOPIC_IDS_SINCE
        self._max_bytes = min(request.max_bytes, context.config.get_int("fetch.max.bytes"))
        self._session: FetchSession | None = None
        self._partitions: Iterable[FetchPartition] = self._enter_session()
        self._results: list[tuple[FetchPartition, Partition | None, PartitionData]] = []
        self._missing_bytes = 0
        self.is_enough = False

    def _enter_session(self) -> Iterable[FetchPartition]:
        request, sessions = self._request, self._context.sessions
        wanted = _wanted(request)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            sessions.close(request.session_id)
            if request.session_epoch == INITIAL_EPOCH:
                now_ms = self._context.clock.now_ms()
                self._session = sessions.open(len(wanted), now_ms, self._uses_ids)
            if self._session is not None:
                self._session.update(wanted, ())
            return wanted
        now_ms = self._context.clock.now_ms()
        session = sessions.resume(request.session_id, request.session_epoch, now_ms, self._uses_ids)
        forgotten = [
            (topic.topic or topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        session.update(wanted, forgotten)
        if not session.partitions:  # as in Kafka, a session with nothing to watch ends
            sessions.close(session.session_id)
            return ()
        self._session = session
        return tuple(session.partitions.values())

    def read(self) -> None:
        """Read every partition within the limits."""
        left = self._max_bytes
        found_bytes = 0
        self._results.clear()
        self.is_enough = False
        for wanted in self._partitions:
            partition, data = self._read_partition(wanted, left, minimum_one=found_bytes == 0)
            size = data.records.size if data.records else 0
            found_bytes += size
            left = max(0, left - size)
            if data.error_code or data.diverging_epoch is not None:
                self.is_enough = True
            self._results.append((wanted, partition, data))
        if found_bytes >= self._request.min_bytes or not self._results:
            self.is_enough = True
        self._missing_bytes = self._request.min_bytes - found_bytes

    def _read_partition(
        self, wanted: FetchPartition, left: int, minimum_one: bool
    ) -> tuple[Partition | None, PartitionData]:
        try:
            partition = self._find(wanted)
            return partition, self._read_log(wanted, partition, left, minimum_one)
        except KafkaError as error:
            return None, PartitionData(
                wanted.partition, error.code, -1, -1, -1, None, None, None, self._no_aborted(), -1, b""
            )

    def _find(self, wanted: FetchPartition) -> Partition:
        replicas = self._context.replicas
        partitions = replicas.by_id.get(wanted.topic_id) if self._uses_ids else replicas.by_name.get(wanted.name)
        if partitions is None and self._uses_ids:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = (partitions or {}).get(wanted.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leader(wanted.current_leader_epoch)
        return partition

    def _read_log(self, wanted: FetchPartition, partition: Partition, left: int, minimum_one: bool) -> PartitionData:
        log = partition.log
        offsets = partition.offsets()
        data = PartitionData(
            wanted.partition,
            0,
            offsets.high_watermark,
            offsets.last_stable_offset,
            offsets.log_start_offset,
            aborted_transactions=self._no_aborted(),
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            epoch, end_offset = partition.epoch_end_offset(wanted.last_fetched_epoch)
            if epoch < 0 or end_offset < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch, end_offset)
                return data
        max_bytes = min(wanted.max_bytes, left)
        if not offsets.log_start_offset <= wanted.fetch_offset <= offsets.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = self._end_offset(offsets)
        if wanted.fetch_offset < end_offset and (max_bytes > 0 or minimum_one):
            piece = log.read(wanted.fetch_offset, max_bytes, end_offset, minimum_one)
            if piece is not None:
                data.records = piece
                if self._is_committed:
                    data.aborted_transactions = [
                        AbortedTransaction(aborted.producer_id, aborted.first_offset)
                        for aborted in log.aborted_transactions(wanted.fetch_offset, piece.end_offset)
                    ]
        return data

    def _end_offset(self, offsets: Offsets) -> int:
        """How far this reader may see."""
        state = self._request.replica_state
        replica_id = self._request.replica_id if state is None else state.replica_id
        if replica_id == DEBUGGING_REPLICA_ID:
            return offsets.log_end_offset
        if replica_id != CONSUMER_REPLICA_ID:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} holds no replica of the partition")
        return offsets.last_stable_offset if self._is_committed else offsets.high_watermark

    def _no_aborted(self) -> list[AbortedTransaction] | None:
        return [] if self._is_committed else None

    def wait(self) -> Later:
        later = Later()
        self._context.metrics.fetch_waits += 1
        self._wait(later, self._request.max_wait_ms)
        return later

    def _wait(self, later: Later, timeout_ms: float) -> None:
        context = self._context
        deadline = context.loop.time() + timeout_ms / 1000

        def complete(is_expired: bool) -> None:
            context.metrics.fetches_expired += is_expired
            if is_expired or not self._is_committed or waiter.missing_bytes <= 0:
                later.finish(self._read_again)
            else:
                self._look_again(later, deadline)

        partitions = [partition for _, partition, _ in self._results if partition is not None]
        waiter = Waiter(self._missing_bytes, partitions, complete, self._is_committed)
        later.on_cancel = waiter.cancel
        context.purgatory.wait(waiter, timeout_ms)

    def _look_again(self, later: Later, deadline: float) -> None:
        """The last stable offset moved, by how many bytes is not known: wait on if it is too little."""
        self.read()
        left_ms = (deadline - self._context.loop.time()) * 1000
        if self.is_enough or left_ms <= 0:
            later.finish(self.response)
        else:
            self._wait(later, left_ms)

    def _read_again(self) -> FetchResponse:
        self.read()
        return self.response()

    def response(self) -> FetchResponse:
        session = self._session
        is_incremental = session is not None and self._request.session_epoch > INITIAL_EPOCH
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for wanted, partition, data in self._results:
            size = data.records.size if data.records else 0
            if partition is not None:
                partition.bytes_out += size
                self._context.metrics.bytes_out += size
            if session is not None:
                has_news = _note_sent(wanted, data, size)
                if size:
                    session.to_end(wanted)
                if is_incremental and not has_news:
                    continue
            key = wanted.name or wanted.topic_id
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(wanted.name, wanted.topic_id)
            topic.partitions.append(data)
        session_id = NO_SESSION if session is None else session.session_id
        return FetchResponse(session_id=session_id, responses=list(topics.values()))


def _wanted(request: FetchRequest) -> list[FetchPartition]:
    wanted = []
    for topic in request.topics:
        for each in topic.partitions:
            partition = FetchPartition(topic.topic, topic.topic_id, each.partition)
            partition.fetch_offset = each.fetch_offset
            partition.max_bytes = each.partition_max_bytes
            partition.current_leader_epoch = each.current_leader_epoch
            partition.last_fetched_epoch = each.last_fetched_epoch
            wanted.append(partition)
    return wanted


def _note_sent(wanted: FetchPartition, data: PartitionData, size: int) -> bool:
    """Remember what the client is told; whether an incremental response has to tell it."""
    has_news = (
        size > 0
        or data.error_code != 0
        or data.diverging_epoch is not None
        or data.high_watermark != wanted.sent_high_watermark
        or data.log_start_offset != wanted.sent_log_start_offset
    )
    # After an error the next answer has to be sent whatever it is.
    wanted.sent_high_watermark = UNSENT if data.error_code else data.high_watermark
    wanted.sent_log_start_offset = data.log_start_offset
    return has_news
