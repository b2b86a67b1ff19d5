"""What a consumer can be told, what it means when it is not, and which of it does not go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

from penstock.client.facade.librdkafka import ErrorCallback
from penstock.client.facade.message import Deserializer
from penstock.types import TopicPartition

DEFAULT_GROUP = "default"
"""The group of a consumer that names none."""

Commit = Literal["auto", "sync", "async", "manual"]
DeliveryGuarantee = Literal["at_least_once", "at_most_once", "exactly_once"]
Start = Literal["earliest", "latest"] | datetime
Listener = Callable[[list[TopicPartition]], None]


class ConsumerSettings(TypedDict, total=False):
    """What a consumer can be told beside its topics and address."""

    group: str
    """Consumers of one group share the messages, each group gets them all; "default" unless given."""
    partitions: Iterable[int] | Literal["all"]
    """Read these partitions of each topic alone, with no group: nothing is shared and nothing is remembered."""
    start: Start
    """Where to begin in a partition of which the group remembers nothing: "earliest" (unless given), "latest", or a
    time."""
    commit: Commit
    """How the position of what is done is remembered: in the background ("auto", unless given), before the next message
    ("sync"), sent before the next message ("async"), or only by `commit()` ("manual")."""
    delivery: DeliveryGuarantee
    """What was under way when a consumer died comes again ("at_least_once", unless given) or never ("at_most_once").
    With "exactly_once" the position is committed only in a producer's transaction (`process`, or
    `producer.transaction(consumer)`): what comes again had no effect before."""
    stop_at_end: bool
    """End the iteration when every partition was read to its end, instead of waiting for more."""
    key_deserializer: Deserializer
    value_deserializer: Deserializer
    """What to make of the bytes, such as `json.loads` or `bytes.decode`; bytes stay bytes without one."""
    on_assigned: Listener
    on_revoked: Listener
    on_lost: Listener
    """Told of partitions that came, that are to be given up (the last moment to commit), and that are gone already
    (on_revoked is told when there is no on_lost). They run inside the call that waits for messages."""
    on_error: ErrorCallback
    """Hears of trouble that no call failed for; logged when there is none."""
    options: Mapping[str, Any]
    """librdkafka's own, by name: {"fetch.min.bytes": 100_000, "group.protocol": "consumer"}."""


DEFAULTS: ConsumerSettings = {
    "group": DEFAULT_GROUP,
    "start": "earliest",
    "commit": "auto",
    "delivery": "at_least_once",
    "stop_at_end": False,
}


def checked_settings(given: ConsumerSettings) -> ConsumerSettings:
    """With the defaults; TypeError or ValueError, with a sentence, when something is not as it must be."""
    for name in given.keys() - ConsumerSettings.__annotations__.keys():
        raise TypeError(f"A consumer has no {name!r}. Options of librdkafka go in options={{...}} by their own names.")
    settings: ConsumerSettings = {**DEFAULTS, **given}
    _check_choices(settings)
    if settings["delivery"] == "at_most_once" and settings["commit"] not in ("auto", "sync"):
        raise ValueError(
            f"commit={settings['commit']!r} does not go with delivery='at_most_once', which commits each message, and "
            "waits for that, before it hands it out. Leave commit away."
        )
    if settings["delivery"] == "exactly_once":
        _check_exactly_once(given)
    if "partitions" in given and "group" in given:
        raise ValueError("Give a group or partitions, not both: in a group the partitions are shared out.")
    return settings


def _check_choices(settings: ConsumerSettings) -> None:
    start, commit, delivery = settings["start"], settings["commit"], settings["delivery"]
    if not isinstance(start, datetime) and start not in ("earliest", "latest"):
        raise ValueError(f"start={start!r} is not 'earliest', 'latest' or a datetime.")
    if commit not in get_args(Commit):
        raise ValueError(f"commit={commit!r} is not 'auto', 'sync', 'async' or 'manual'.")
    if delivery not in get_args(DeliveryGuarantee):
        raise ValueError(f"delivery={delivery!r} is not 'at_least_once', 'at_most_once' or 'exactly_once'.")


def _check_exactly_once(given: ConsumerSettings) -> None:
    if "commit" in given:
        raise ValueError(
            f"commit={given['commit']!r} does not go with delivery='exactly_once': the position is committed by the "
            "producer's transaction. Leave commit away."
        )
    if "partitions" in given:
        raise ValueError("delivery='exactly_once' needs a group, which remembers the position; leave partitions away.")
