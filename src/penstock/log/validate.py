"""What the leader checks in a batch before it takes it, beyond what the 61-byte header shows at a glance.

`Log.append_as_leader` looks at the header itself. Where anything there is unusual, or the topic's settings ask for
more, it comes here. The order of the checks is Kafka's, so that the first thing wrong gets the same error code:

    one whole batch of magic 2      INVALID_RECORD, CORRUPT_MESSAGE
    not above max.message.bytes     MESSAGE_TOO_LARGE
    checksum                        CORRUPT_MESSAGE
    a client's to send              INVALID_RECORD          (base offset 0, no control batch, count = last delta + 1)
    sequence with a producer id     INVALID_RECORD
    in a transaction by intent      INVALID_TXN_STATE, INVALID_RECORD without a producer id
    keys on a compacted topic       INVALID_RECORD          (the records are decoded)
    timestamps in range             INVALID_TIMESTAMP       (by the header's base and max timestamp)
    not above segment.bytes         RECORD_LIST_TOO_LARGE

Then the batch is made what the topic stores: another codec (`compression.type`), the broker's time
(`message.timestamp.type=LogAppendTime`). The first builds a new batch; the second changes the caller's buffer in place.

A follower trusts its leader's judgement but not the bytes: `followed_batches` checks lengths, checksums, that offsets
follow on and that epochs do not go back.
"""

from __future__ import annotations

from penstock.errors import ErrorCode, InvalidRecordsError, KafkaError
from penstock.log.config import LogConfig
from penstock.types import Bytes
from penstock.wire.compression import compress
from penstock.wire.record import DEFAULT_LIMIT, iterate_records, record_section
from penstock.wire.records import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    batch_size,
    check_batch,
    check_produce_request,
    corrupt,
    invalid_record,
    set_log_append_time,
    update_crc,
)

CODEC_NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Kafka's words in `compression.type`, beside `producer`."""


NO_AGE_LIMIT = 2**63 - 1
"""`message.timestamp.before.max.ms` by default: records may be as old as they like."""


def needs_preparation(config: LogConfig, is_own: bool = False) -> bool:
    """Whether the topic's settings ask for more of every batch than its header can show. What the broker itself writes
    has keys, and is not compressed."""
    limits_age = config.message_timestamp_before_max_ms != NO_AGE_LIMIT
    as_it_comes = ("producer", "uncompressed") if is_own else ("producer",)
    is_rewritten = config.compression_type not in as_it_comes or config.log_append_time
    return (config.compacts and not is_own) or is_rewritten or limits_age


def prepare_or_raise(
    records: memoryview | bytearray, config: LogConfig, now_ms: int, may_be_transactional: bool = False
) -> memoryview | bytearray:
    """The one batch that `records` holds, as the topic stores it, offsets not yet assigned; KafkaError when refused."""
    check_size(records, config.max_message_bytes)
    header = check_produce_request(records, 0, len(records))
    records = memoryview(records)[: header.size_bytes]
    check_producer(header, may_be_transactional)
    if config.compacts:
        check_keys(records)
    if not config.log_append_time:
        check_timestamps(records, header, config, now_ms)
    codec = CODEC_NAMES.get(config.compression_type)
    if codec is not None and codec != header.compression:
        records = recompress(records, header, codec, config)
        check_size(records, config.max_message_bytes)
    if config.log_append_time:
        set_log_append_time(records, 0, now_ms)
    if len(records) > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The batch has {len(records)} bytes; a segment of this topic has at most {config.segment_bytes}.",
        )
    return records


def check_size(records: Bytes, max_message_bytes: int) -> None:
    """Kafka looks at the size before the checksum."""
    size = batch_size(records, 0, len(records))
    if size is not None and max_message_bytes < size <= len(records):
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {size} bytes; the topic takes at most {max_message_bytes} (max.message.bytes).",
        )


def check_producer(header: BatchHeader, may_be_transactional: bool = False) -> None:
    if header.has_producer_id and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise invalid_record(
            f"A batch of producer {header.producer_id} needs a sequence and an epoch, not {header.base_sequence} "
            f"and {header.producer_epoch}."
        )
    if header.is_transactional and not may_be_transactional:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "The batch is not part of an ongoing transaction.")
    if header.is_transactional and not header.has_producer_id:
        raise invalid_record("A transactional batch needs a producer id.")


def check_keys(records: Bytes) -> None:
    """Compaction keeps the newest record of each key, so there must be one."""
    keyless = [place for place, record in enumerate(iterate_records(records)) if record.key is None]
    if keyless:
        message = "A compacted topic takes no record without a key."
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, message, [(place, message) for place in keyless])


def check_timestamps(records: Bytes, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """By the header: the first record's timestamp and the largest. No timestamp at all is accepted, as by Kafka."""
    oldest_ms = now_ms - config.message_timestamp_before_max_ms
    newest_ms = now_ms + config.message_timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != NO_TIMESTAMP and not oldest_ms <= timestamp <= newest_ms:
            message = f"The batch has an invalid timestamp, {timestamp}: the topic takes {oldest_ms} to {newest_ms}."
            wrong = [
                (place, f"The timestamp {record.timestamp} is out of range.")
                for place, record in enumerate(iterate_records(records))
                if record.timestamp != NO_TIMESTAMP and not oldest_ms <= record.timestamp <= newest_ms
            ]
            raise InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, message, wrong)


def recompress(records: Bytes, header: BatchHeader, codec: Codec, config: LogConfig) -> memoryview:
    """The same records under the topic's own codec, in a new buffer."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    section = compress(codec, record_section(records, 0, header, DEFAULT_LIMIT), levels.get(codec))
    data = bytearray(memoryview(records)[:HEADER_SIZE])
    data += section
    LENGTH.pack_into(data, BATCH_LENGTH_AT, len(data) - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(data, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    update_crc(data, 0)
    return memoryview(data)


def followed_batches(
    records: Bytes, log_end_offset: int, leader_epoch: int, may_skip: bool
) -> list[tuple[int, BatchHeader]]:
    """(position, header) of each batch that a leader sent; a cut one at the end is left out.

    CORRUPT_MESSAGE for bad bytes; OFFSET_OUT_OF_RANGE when the first offset is not the log's end. Compaction at the
    leader leaves gaps (`may_skip`).
    """
    batches: list[tuple[int, BatchHeader]] = []
    position, end = 0, len(records)
    while (size := batch_size(records, position, end)) is not None and position + size <= end:
        header = check_batch(records, position, end)
        if header.base_offset != log_end_offset and not (may_skip and header.base_offset > log_end_offset):
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"A batch with base offset {header.base_offset} came where {log_end_offset} is next.",
            )
        if header.partition_leader_epoch < leader_epoch or header.last_offset_delta < 0:
            raise corrupt(f"A batch of leader epoch {header.partition_leader_epoch} came after epoch {leader_epoch}.")
        batches.append((position, header))
        log_end_offset, leader_epoch = header.next_offset, header.partition_leader_epoch
        position += size
    return batches
