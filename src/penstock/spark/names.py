"""The names of options: which there are, and what to say of one that there is not.

Options that begin with `kafka.` are settings of Kafka's own clients. Of these

    USED            mean here what they mean in Kafka
    REFUSED         would change what is read or written behind Spark's back, as in Spark; or need what we do not have
    NO_MEANING      tune a client that we do not have: accepted, so that an old job runs

Names are case-insensitive for Spark, which hands them over in small letters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from penstock.errors import ConfigError

KAFKA = "kafka."

REFUSED = {
    "auto.offset.reset": "Use startingOffsets: a stream goes on where its checkpoint says.",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint; with kafka.group.id they are published too.",
    "interceptor.classes": "There is no Java in which they could run.",
    "key.deserializer": "Keys come as bytes: cast or parse the column.",
    "value.deserializer": "Values come as bytes: cast or parse the column.",
    "key.serializer": "Keys go out as bytes: cast the column.",
    "value.serializer": "Values go out as bytes: cast the column.",
}
REFUSED_PREFIXES = {
    "sasl.": "Penstock's client does not log in yet: use a listener without it.",
    "ssl.": "Penstock's client does not encrypt yet: use a PLAINTEXT listener.",
}

CONSUMER_NO_MEANING = frozenset(
    [
        "allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "client.dns.lookup", "client.rack",
        "connections.max.idle.ms", "enable.metrics.push", "exclude.internal.topics", "fetch.max.bytes",
        "fetch.max.wait.ms", "fetch.min.bytes", "group.instance.id", "group.protocol", "heartbeat.interval.ms",
        "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    ]
)  # fmt: skip
"""Settings of Kafka's consumer that tune it, and change nothing of what is read."""


def check_names(
    given: Iterable[str], known: Collection[str], settings: Collection[str], ignored: Collection[str]
) -> None:
    """ConfigError for the first name that is not an option, nor a `kafka.` setting that is used or ignored."""
    by_small = {name.lower(): name for name in [*known, *(KAFKA + setting for setting in settings)]}
    for name in given:
        small = name.lower()
        if small in by_small:
            continue
        if not small.startswith(KAFKA):
            raise ConfigError(_unknown(f"There is no option {name!r}.", small, by_small))
        _check_setting(small.removeprefix(KAFKA), by_small, ignored)


def _check_setting(setting: str, by_small: Mapping[str, str], ignored: Collection[str]) -> None:
    if setting in ignored:
        return
    reasons = [REFUSED[setting]] if setting in REFUSED else []
    reasons += [why for prefix, why in REFUSED_PREFIXES.items() if setting.startswith(prefix)]
    if reasons:
        raise ConfigError(f"The option kafka.{setting} cannot be set. {reasons[0]}")
    names = {**by_small, **{KAFKA + each: KAFKA + each for each in [*ignored, *REFUSED]}}
    raise ConfigError(_unknown(f"kafka.{setting} is not a setting that is known here.", KAFKA + setting, names))


def _unknown(words: str, name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"{words} Did you mean {known[near[0]]}?" if near else f"{words} docs/spark-source.md lists what there is."
