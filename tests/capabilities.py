"""What a broker serves, asked of the broker itself, for scenarios that need more than every broker has yet."""

from __future__ import annotations

import pytest

import raw

JOIN_GROUP = 11


def needs_groups(bootstrap: str) -> None:
    """Skip the test where consumer groups are not served yet."""
    with raw.Connection(bootstrap) as connection:
        served = {api.api_key for api in connection.call("ApiVersions", 0).api_keys}
    if JOIN_GROUP not in served:
        pytest.skip("groups are not served yet")
