"""Produce, versions 3 to 13: append each partition's batch, and say where it went.

Every partition succeeds or fails by itself. With acks 0 nothing is answered; an error then ends the connection, as
Kafka does, since there is no other way to tell. acks -1 waits for the in-sync replicas, which on one node is the
append itself. With `penstock.durability=fsync` the answer waits until the batches are on disk, together with those of
every other request that arrived meanwhile. A request with a transactional id is verified first (transactional_produce);
a transactional batch in a request without one is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.produce_answer import failure, success
from penstock.broker.replicas.partition import Partition
from penstock.broker.transactional_produce import Verdicts, verify_then
from penstock.errors import ErrorCode, KafkaError
from penstock.net.server_connection import CloseConnection
from penstock.wire.api.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.wire.records import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_BIT, Codec

TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
NO_VERDICTS: Verdicts = {}


def handle(context: Context, call: Call, request: ProduceRequest) -> ProduceResponse | Later | None:
    if request.transactional_id is None:
        return _append_all(context, call, request, NO_VERDICTS)
    return verify_then(context, call, request, lambda verdicts: _append_all(context, call, request, verdicts))


def _append_all(
    context: Context, call: Call, request: ProduceRequest, verdicts: Verdicts
) -> ProduceResponse | Later | None:
    acks = request.acks
    response = ProduceResponse()
    appended: list[Partition] = []
    has_error = False
    by_id = call.version >= TOPIC_IDS_SINCE
    is_unusual = acks not in (-1, 0, 1) or call.version < ZSTD_SINCE
    for topic in request.topic_data:
        answers = []
        replicas = context.replicas
        partitions = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.name)
        for data in topic.partition_data:
            partition = partitions.get(data.index) if partitions is not None else None
            try:
                if partition is None:
                    raise _unknown(by_id, partitions is None)
                if data.records is None:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch")
                if is_unusual:
                    _check_unusual(call, request, data.records)
                verdict = verdicts.get(partition) if verdicts else None
                if isinstance(verdict, KafkaError):
                    raise verdict
                result = partition.append(data.records, acks, guard=verdict)
                appended.append(partition)
                answers.append(success(data.index, result))
            except KafkaError as error:
                has_error = True
                context.metrics.produce_errors += 1
                answers.append(failure(data.index, _told(error, request, data.records)))
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    later = _after_sync(context, response, appended) if appended and context.group_commit.is_needed else None
    if acks == 0:
        if has_error:
            raise CloseConnection("a produce request with acks 0 failed")
        return None
    return later or response


def _unknown(by_id: bool, is_topic: bool) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if by_id and is_topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_unusual(call: Call, request: ProduceRequest, records: memoryview) -> None:
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if call.version < ZSTD_SINCE and len(records) >= HEADER_SIZE and records[ATTRIBUTES_AT + 1] & 7 == Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd is allowed from version 7 on")


def _told(error: KafkaError, request: ProduceRequest, records: memoryview | None) -> KafkaError:
    """The log only knows that there is no transaction; Kafka says what is missing in the request."""
    if error.code is not ErrorCode.INVALID_TXN_STATE or request.transactional_id is not None or records is None:
        return error
    is_transactional = records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT
    return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) if is_transactional else error


def _after_sync(context: Context, response: ProduceResponse, appended: list[Partition]) -> Later:
    """With acks 0 too, for readers see only what is on disk."""
    later = Later()

    def on_synced(failed: frozenset[Partition]) -> None:
        for partition in failed.intersection(appended):
            _fail_partition(response, partition)
        later.finish(lambda: response)

    context.group_commit.wait(appended, on_synced)
    return later


def _fail_partition(response: ProduceResponse, partition: Partition) -> None:
    """The batch is in the file but not on disk: it does not count."""
    tp = partition.log.topic_partition
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed before the batch was safe")
    for topic in response.responses:
        if topic.name == tp.topic or topic.topic_id == partition.log.topic_id:
            topic.partition_responses = [
                failure(each.index, error) if each.index == tp.partition else each for each in topic.partition_responses
            ]
