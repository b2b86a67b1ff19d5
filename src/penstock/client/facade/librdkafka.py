"""The library underneath, and its options: ours are few, and whatever the caller gives wins.

confluent-kafka is an extra, so that a broker does not need it; without it the import says what to install.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from penstock.client.facade.outage import Outage, librdkafka_log
from penstock.errors import KafkaError

try:
    import confluent_kafka
except ImportError as error:
    raise ImportError(
        "penstock.Producer and penstock.Consumer need confluent-kafka. Install it with: pip install 'penstock[client]'"
    ) from error

__all__ = ["DEFAULT_BOOTSTRAP", "ErrorCallback", "confluent_kafka", "joined_options", "milliseconds"]

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
ErrorCallback = Callable[[KafkaError], None]


def joined_options(
    bootstrap: str, ours: Mapping[str, Any], given: Mapping[str, Any] | None, outage: Outage
) -> dict[str, Any]:
    """What librdkafka is configured with; `outage` hears of trouble that no call of the caller's failed for."""
    basis = {
        "bootstrap.servers": bootstrap,
        "client.id": "penstock",
        "error_cb": outage.hear,
        "logger": librdkafka_log,
    }
    return {**basis, **ours, **(given or {})}


def milliseconds(moment: datetime | int) -> int:
    """Kafka's time; a datetime without a zone is local time, as everywhere in Python."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment
