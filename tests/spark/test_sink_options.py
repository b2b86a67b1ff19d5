"""Options of the sink."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.spark.sink_options import SinkOptions, parse_sink_options
from penstock.wire.records import Codec

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def parse(*, is_stream: bool = False, **options: str) -> SinkOptions:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return parse_sink_options({**BOOTSTRAP, **named}, exactly_once_by_default=is_stream)


def test_a_stream_is_exactly_once_and_a_batch_idempotent_by_default() -> None:
    assert parse(is_stream=True).is_exactly_once
    batch = parse()
    assert (batch.is_exactly_once, batch.is_idempotent, batch.acks) == (False, True, "all")


@pytest.mark.parametrize("name", ["kafka_compression_type", "compression_type", "KAFKA_Compression_Type"])
def test_names_are_case_insensitive_and_short_ones_do(name: str) -> None:
    assert parse(**{name: "zstd"}).codec is Codec.ZSTD


def test_settings_that_tune_kafkas_producer_are_accepted() -> None:
    parse(kafka_linger_ms="5", kafka_batch_size="100000", checkpointLocation="/x", includeHeaders="true")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topik": "x"}, "Did you mean topic"),
        ({"kafka_compresion_type": "lz4"}, r"Did you mean kafka\.compression\.type"),
        ({"kafka_compression_type": "lzma"}, "there are none, gzip, snappy, lz4, zstd"),
        ({"kafka_acks": "2"}, "there are all"),
        ({"kafka_acks": "1", "exactlyOnce": "true"}, "exactlyOnce needs acks=all"),
        ({"kafka_acks": "1", "kafka_enable_idempotence": "true"}, "needs acks=all"),
        ({"exactlyOnce": "true", "kafka_enable_idempotence": "false"}, "exactlyOnce needs"),
        ({"exactlyOnce": "maybe"}, "neither true nor false"),
        ({"kafka_transactional_id": "x"}, "transactionalIdPrefix"),
        ({"kafka_transaction_timeout_ms": "-1"}, "not a number of milliseconds"),
        ({"kafka_security_protocol": "SASL_SSL"}, "PLAINTEXT"),
        ({"kafka_value_serializer": "x"}, "cast the column"),
        ({"kafka_partitioner": "random"}, "consistent_random, murmur2_random"),
        ({"kafka_bootstrap_servers": "host:port:x:y/"}, "not an address"),
        ({"kafka_bootstrap_servers": ""}, r"kafka\.bootstrap\.servers is missing"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(**options)
