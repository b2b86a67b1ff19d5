"""What a user may ask of the source: the options of Spark's own Kafka source, with its names and its defaults.

    kafka.bootstrap.servers, or bootstrap   host:port,host:port; needed
    subscribe                               topics, by comma       }
    subscribePattern                        a regular expression   } one of these is needed
    assign                                  {"topic": [0, 1]}      }
    startingOffsets                         earliest, latest, or {"topic": {"0": 5}}, where -2 is earliest and -1 latest
    startingTimestamp                       milliseconds since 1970
    startingOffsetsByTimestamp              {"topic": {"0": milliseconds}}
    startingOffsetsByTimestampStrategy      error, or latest: where no record is that late
    endingOffsets, endingTimestamp, endingOffsetsByTimestamp         a batch only
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay      a stream only: how much a micro-batch takes
    minPartitions, maxRecordsPerPartition   split partitions into more tasks
    failOnDataLoss                          true: what is gone is an error; false: go on with what is there
    includeHeaders                          a column more
    kafkaConsumer.pollTimeoutMs             how long a task waits for a broker that is away, or for a transaction's end
    kafka.group.id                          publish a stream's progress as this group's offsets (progress.py)
    kafka.isolation.level, kafka.client.id, kafka.default.api.timeout.ms     as in Kafka's consumer

Rules:
- a batch starts at earliest by itself and a stream at latest. Of several ways to say where, the time for all partitions
  wins over the times of each, and both over offsets: all as in Spark;
- a name that nobody knows is an error with the nearest one: a mistyped failOnDataLoss must not show as lost data;
- kafka.isolation.level is read_committed by itself, where Kafka's consumer has read_uncommitted. What writes exactly
  once, such as our own sink, leaves aborted records in the log when it is killed; nobody wants to read them twice;
- groupIdPrefix and fetchOffset.* are accepted and mean nothing: no group is joined, and retries go by time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from penstock.client.address import parse_bootstrap
from penstock.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.errors import ConfigError
from penstock.spark.bounds import AtOffsets, AtTime, Bound, Everywhere
from penstock.spark.names import CONSUMER_NO_MEANING, check_names
from penstock.spark.subscription import Assigned, Matching, Named, Subscription
from penstock.types import TopicPartition

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
OPTIONS = (
    "bootstrap", "subscribe", "subscribePattern", "assign",
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    *BATCH_ONLY, *STREAM_ONLY, "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders",
    "kafkaConsumer.pollTimeoutMs", "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
SETTINGS = (
    "bootstrap.servers", "group.id", "isolation.level", "client.id", "default.api.timeout.ms", "security.protocol",
)  # fmt: skip
"""Of Kafka's consumer, those that are used."""

ISOLATION_LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
POLL_TIMEOUT_MS = 120_000
API_TIMEOUT_MS = 60_000
CLIENT_ID = "penstock-spark"
MAX_TRIGGER_DELAY_MS = 15 * 60_000

_POSITIONS = {"earliest": EARLIEST, "latest": LATEST}
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connecting:
    """How to reach the brokers, and how long to try."""

    bootstrap: str
    client_id: str = CLIENT_ID
    timeout_ms: int = API_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options that were checked, of a batch or of a stream."""

    connecting: Connecting
    subscription: Subscription
    starting: Bound
    ending: Bound
    is_loss_fatal: bool
    include_headers: bool
    isolation_level: int
    poll_timeout_ms: int
    group_id: str | None
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Those of a batch; ConfigError when one is wrong."""
    given = _Given(options)
    given.refuse(STREAM_ONLY, "A batch reads a range once: use it with readStream.")
    starting = _bound(given, "starting") or Everywhere(EARLIEST)
    ending = _bound(given, "ending") or Everywhere(LATEST)
    _check_ends(starting, LATEST, "startingOffsets", "latest, where a batch finds nothing")
    _check_ends(ending, EARLIEST, "endingOffsets", "earliest, where a batch finds nothing")
    return _read_options(given, starting, ending)


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Those of a stream; ConfigError when one is wrong."""
    given = _Given(options)
    given.refuse(BATCH_ONLY, "A stream has no end: use it with read.")
    return _read_options(given, _bound(given, "starting") or Everywhere(LATEST), Everywhere(LATEST))


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether the schema has the column; also checks what concerns batch and stream alike, where Spark asks first."""
    given = _Given(options)
    _connecting(given)
    _subscription(given)
    return given.flag("includeHeaders", default=False)


class _Given:
    """The options as Spark hands them over, by any case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        check_names(options, OPTIONS, SETTINGS, CONSUMER_NO_MEANING)
        self._values = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        for name in names:
            if self.text(name) is not None:
                raise ConfigError(f"The option {name} does not fit here. {why}")

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, default)

    def choice(self, name: str, values: Mapping[str, T], default: T) -> T:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in values:
            _wrong(name, text, " or ".join(values))
        return values[text.strip().lower()]

    def positive(self, name: str) -> int | None:
        text = self.text(name)
        if text is not None and not (text.strip().isascii() and text.strip().isdigit() and int(text) > 0):
            _wrong(name, text, "a whole number above 0")
        return None if text is None else int(text)

    def by_partition(self, name: str) -> dict[TopicPartition, int] | None:
        """{"topic": {"0": 5}}; an "id", as checkpoints and progress have it, is passed over."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return {
                TopicPartition(topic, int(number)): _whole(value)
                for topic, entry in _object(text).items()
                for number, value in _object(entry).items()
                if number != "id"
            }
        except ValueError:
            _wrong(name, text, 'JSON such as {"topic": {"0": 5, "1": 7}}')


def _wrong(name: str, text: str, expected: str) -> NoReturn:
    raise ConfigError(f"The option {name} is {text!r:.200}, which is not {expected}.")


def _connecting(given: _Given) -> Connecting:
    bootstrap = given.text("kafka.bootstrap.servers") or given.text("bootstrap")
    if not bootstrap:
        raise ConfigError("No broker is named. Set the option kafka.bootstrap.servers, for example to 127.0.0.1:9092.")
    parse_bootstrap(bootstrap)
    protocol = given.text("kafka.security.protocol") or "PLAINTEXT"
    if protocol.upper() != "PLAINTEXT":
        raise ConfigError(f"kafka.security.protocol {protocol} is not supported yet: use a PLAINTEXT listener.")
    timeout_ms = given.positive("kafka.default.api.timeout.ms") or API_TIMEOUT_MS
    return Connecting(bootstrap, given.text("kafka.client.id") or CLIENT_ID, timeout_ms)


def _read_options(given: _Given, starting: Bound, ending: Bound) -> ReadOptions:
    return ReadOptions(
        connecting=_connecting(given),
        subscription=_subscription(given),
        starting=starting,
        ending=ending,
        is_loss_fatal=given.flag("failOnDataLoss", default=True),
        include_headers=given.flag("includeHeaders", default=False),
        isolation_level=given.choice("kafka.isolation.level", ISOLATION_LEVELS, READ_COMMITTED),
        poll_timeout_ms=given.positive("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        group_id=given.text("kafka.group.id") or None,
        min_partitions=given.positive("minPartitions"),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        max_offsets_per_trigger=given.positive("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.positive("minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
    )


def _subscription(given: _Given) -> Subscription:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if given.text(name) is not None]
    if len(names) != 1:
        said = " and ".join(names) if names else "none of them"
        raise ConfigError(f"Say what to read by one of subscribe, subscribePattern and assign; there is {said}.")
    text = given.text(names[0]) or ""
    if names[0] == "assign":
        return _assigned(text)
    if names[0] == "subscribePattern":
        return _matching(text)
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    return Named(topics) if topics else _wrong("subscribe", text, "the name of a topic")


def _matching(text: str) -> Matching:
    try:
        re.compile(text)
    except re.error as error:
        _wrong("subscribePattern", text, f"a regular expression ({error})")
    return Matching(text) if text else _wrong("subscribePattern", text, "a regular expression")


def _assigned(text: str) -> Assigned:
    try:
        found = [TopicPartition(topic, _whole(n)) for topic, numbers in _object(text).items() for n in _list(numbers)]
    except ValueError:
        _wrong("assign", text, 'JSON such as {"topic": [0, 1]}')
    return Assigned(tuple(sorted(set(found)))) if found else _wrong("assign", text, "one partition at least")


def _bound(given: _Given, side: str) -> Bound | None:
    """Where to start or end, if the user has said so."""
    or_latest = side == "ending" or given.choice(
        "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, default=False
    )
    timestamp = given.text(f"{side}Timestamp")
    if timestamp is not None:
        if not timestamp.strip().isdigit():
            _wrong(f"{side}Timestamp", timestamp, "a number of milliseconds since 1970")
        return AtTime(f"{side}Timestamp", int(timestamp), {}, or_latest)
    timestamps = given.by_partition(f"{side}OffsetsByTimestamp")
    if timestamps is not None:
        return AtTime(f"{side}OffsetsByTimestamp", None, timestamps, or_latest)
    name = f"{side}Offsets"
    text = (given.text(name) or "").strip().lower()
    if text in _POSITIONS:
        return Everywhere(_POSITIONS[text])
    if text and not text.startswith("{"):
        _wrong(name, text, 'earliest, latest, or JSON such as {"topic": {"0": 5}}')
    offsets = given.by_partition(name)
    return None if offsets is None else AtOffsets(name, offsets)


def _check_ends(bound: Bound, position: int, option: str, what: str) -> None:
    values = [bound.position] if isinstance(bound, Everywhere) else []
    values += bound.offsets.values() if isinstance(bound, AtOffsets) else []
    if position in values:
        raise ConfigError(f"The option {option} is {what}.")


def _duration_ms(given: _Given, name: str, default: int) -> int:
    """As Spark writes times: 500ms, 30s, 15m, 2h, 1d; milliseconds without a unit."""
    text = given.text(name)
    if text is None:
        return default
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        _wrong(name, text, "a time such as 500ms, 30s, 15m or 2h")
    return int(match[1]) * _UNITS_MS[match[2]]


def _object(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise ValueError
    return found


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    return value
