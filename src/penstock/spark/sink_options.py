"""What a user may ask of the sink: the options of Spark's own Kafka sink, and a few of ours.

    option                                       batch    stream   meaning
    kafka.bootstrap.servers, bootstrap           needed   needed   host:port,host:port
    topic                                                          where to write; without it a column `topic` says
    kafka.compression.type, compression.type     none     none     none, gzip, snappy, lz4 or zstd
    kafka.acks, acks                             all      all      all, 1 or 0
    kafka.enable.idempotence                     true     true     what is sent again is not written twice
    exactlyOnce                                  false    true     a transaction for each task (sink_task)
    transactionalIdPrefix                        penstock          begins the names of ids and marker groups
    kafka.transaction.timeout.ms                 900000            how long a task may take, with exactlyOnce
    kafka.delivery.timeout.ms                    120000            how long a broker that is away is waited for
    kafka.partitioner                            consistent_random, as librdkafka; murmur2_random, as Java's producer
    kafka.client.id                              penstock-spark

Rules:
- names are case-insensitive; a name that is not known is an error that gives the nearest one;
- with exactlyOnce acks must be all;
- settings of Kafka's producer that have no meaning here (buffers, lingering) are accepted, and those that would change
  who may write are refused: the sink speaks plaintext.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from penstock.client.address import parse_bootstrap
from penstock.client.arrow.placement import BY_KEY
from penstock.errors import ConfigError
from penstock.spark.names import check_names
from penstock.spark.options import Connecting
from penstock.wire.records import Codec

T = TypeVar("T")
Acks = Literal["all", 0, 1, -1]

DEFAULT_PREFIX = "penstock"
DEFAULT_CLIENT_ID = "penstock-spark"
DEFAULT_DELIVERY_TIMEOUT_MS = 120_000
DEFAULT_TRANSACTION_TIMEOUT_MS = 900_000
"""What brokers allow by default. A task that dies is tried again, and that aborts what it left open at once."""

_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_ACKS: Final[Mapping[str, Acks]] = {"all": "all", "-1": "all", "1": 1, "0": 0}

OPTIONS: Final = (
    "bootstrap", "topic", "compression.type", "acks", "exactlyOnce", "transactionalIdPrefix",
    "checkpointLocation", "includeHeaders", "path", "queryName",
)  # fmt: skip
"""The last four Spark passes on, and they are not for the sink: headers are written when there is such a column."""

SETTINGS: Final = (
    "bootstrap.servers", "compression.type", "acks", "enable.idempotence", "transaction.timeout.ms",
    "delivery.timeout.ms", "partitioner", "client.id", "security.protocol", "transactional.id",
)  # fmt: skip

NO_MEANING: Final = frozenset(
    [
        "batch.size", "buffer.memory", "client.dns.lookup", "connections.max.idle.ms", "enable.metrics.push",
        "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.age.ms",
        "metadata.max.idle.ms", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    ]
)  # fmt: skip
"""Settings of Kafka's producer that tune it: our writer decides these by itself."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What was asked for, checked. It travels to the executors."""

    connecting: Connecting
    topic: str | None
    codec: Codec
    acks: Acks
    is_idempotent: bool
    is_exactly_once: bool
    id_prefix: str
    transaction_timeout_ms: int
    partitioner: str


def parse_sink_options(options: Mapping[str, str], *, exactly_once_by_default: bool) -> SinkOptions:
    """ConfigError, with what to write instead, when something cannot be used."""
    given = {name.lower(): value for name, value in options.items()}
    _check(given)
    acks = _choice(given, ("kafka.acks", "acks"), _ACKS, "all")
    is_exactly_once = _flag(given, "exactlyOnce", exactly_once_by_default)
    is_idempotent = _flag(given, "kafka.enable.idempotence", acks == "all")
    if (is_exactly_once or is_idempotent) and acks != "all":
        asked = "exactlyOnce" if is_exactly_once else "kafka.enable.idempotence"
        raise ConfigError(f"{asked} needs acks=all, and acks is {acks}. Leave acks out, or set {asked}=false.")
    if is_exactly_once and not is_idempotent:
        raise ConfigError("exactlyOnce needs kafka.enable.idempotence=true: leave that option out.")
    return SinkOptions(
        connecting=_connecting(given),
        topic=given.get("topic") or None,
        codec=_choice(given, ("kafka.compression.type", "compression.type"), _CODECS, "none"),
        acks=acks,
        is_idempotent=is_idempotent,
        is_exactly_once=is_exactly_once,
        id_prefix=given.get("transactionalidprefix") or DEFAULT_PREFIX,
        transaction_timeout_ms=_milliseconds(given, "kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS),
        partitioner=_partitioner(given),
    )


def _check(given: Mapping[str, str]) -> None:
    check_names(given, OPTIONS, SETTINGS, NO_MEANING)
    if "kafka.transactional.id" in given:
        raise ConfigError("Each task has a transactional id of its own: use exactlyOnce and transactionalIdPrefix.")
    if given.get("kafka.security.protocol", "plaintext").lower() != "plaintext":
        raise ConfigError("The option kafka.security.protocol can only be PLAINTEXT: the sink does not log in yet.")


def _connecting(given: Mapping[str, str]) -> Connecting:
    found = given.get("kafka.bootstrap.servers") or given.get("bootstrap")
    if not found:
        raise ConfigError("The option kafka.bootstrap.servers is missing: host:port, or several by comma.")
    parse_bootstrap(found)
    timeout_ms = _milliseconds(given, "kafka.delivery.timeout.ms", DEFAULT_DELIVERY_TIMEOUT_MS)
    return Connecting(found, given.get("kafka.client.id") or DEFAULT_CLIENT_ID, timeout_ms)


def _choice(given: Mapping[str, str], names: tuple[str, ...], known: Mapping[str, T], default: str) -> T:
    for name in names:
        if name in given:
            value = given[name].strip().lower()
            if value not in known:
                raise ConfigError(f"{name}={given[name]!r} is not known; there are {', '.join(known)}.")
            return known[value]
    return known[default]


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name}={value!r} is neither true nor false.")
    return value == "true"


def _milliseconds(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name, str(default)).strip()
    if not value.isascii() or not value.isdecimal() or not 0 < int(value) < 2**31:
        raise ConfigError(f"{name}={value!r} is not a number of milliseconds above 0.")
    return int(value)


def _partitioner(given: Mapping[str, str]) -> str:
    return _choice(given, ("kafka.partitioner",), {name: name for name in BY_KEY}, BY_KEY[0])
