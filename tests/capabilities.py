"""What a broker serves, asked of the broker itself, for scenarios that need more than every broker has yet."""

from __future__ import annotations

import pytest

import raw

JOIN_GROUP = 11
INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 22, 24, 26
CONSUMER_GROUP_HEARTBEAT = 68


def needs_groups(bootstrap: str) -> None:
    """Skip the test where consumer groups are not served yet."""
    if not is_served(bootstrap, JOIN_GROUP):
        pytest.skip("groups are not served yet")


def needs_consumer_protocol(bootstrap: str) -> None:
    """Skip the test where `group.protocol=consumer` (KIP-848) is not served yet."""
    if not is_served(bootstrap, CONSUMER_GROUP_HEARTBEAT):
        pytest.skip("group.protocol=consumer is not served yet")


def needs_transactions(bootstrap: str) -> None:
    """Skip the test where transactions are not served yet."""
    if not all(is_served(bootstrap, key) for key in (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN)):
        pytest.skip("transactions are not served yet")


def is_served(bootstrap: str, key: int) -> bool:
    with raw.Connection(bootstrap) as connection:
        return key in {api.api_key for api in connection.call("ApiVersions", 0).api_keys}
