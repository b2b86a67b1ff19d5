"""The library underneath, and its options: ours are few, and whatever the caller gives wins.

confluent-kafka is an extra, so that a broker does not need it; without it the import says what to install.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from penstock.client.facade.client_error import ClientError
from penstock.errors import KafkaError

try:
    import confluent_kafka
except ImportError as error:
    raise ImportError(
        "penstock.Producer and penstock.Consumer need confluent-kafka. Install it with: pip install 'penstock[client]'"
    ) from error

__all__ = ["DEFAULT_BOOTSTRAP", "ErrorCallback", "confluent_kafka", "joined_options", "milliseconds"]

log = logging.getLogger("penstock.client")

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
ErrorCallback = Callable[[KafkaError], None]


def joined_options(
    bootstrap: str, ours: Mapping[str, Any], given: Mapping[str, Any] | None, on_error: ErrorCallback | None
) -> dict[str, Any]:
    """What librdkafka is configured with; `on_error` hears of trouble that no call of the caller's failed for."""
    tell = on_error or _log_error
    basis = {
        "bootstrap.servers": bootstrap,
        "client.id": "penstock",
        "error_cb": lambda raw: tell(ClientError(raw, f"Trouble with {bootstrap}")),
        "logger": log,
    }
    return {**basis, **ours, **(given or {})}


def milliseconds(moment: datetime | int) -> int:
    """Kafka's time; a datetime without a zone is local time, as everywhere in Python."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


def _log_error(error: KafkaError) -> None:
    log.warning("%s", error)
