"""Which broker coordinates a group or a transactional id.

    find_coordinator(cluster, GROUP, "billing", deadline)            # a node id

The answer may be old a moment later: who is told NOT_COORDINATOR asks again.
"""

from __future__ import annotations

from typing import cast

from penstock.client.cluster import Cluster
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api import find_coordinator as find_coordinator_api
from penstock.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION = 0, 1
"""What a coordinator is of, as FindCoordinator numbers it."""


def find_coordinator(cluster: Cluster, kind: int, key: str, deadline: float) -> int:
    """Its node id; a KafkaError that may be retried while there is none."""
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    answer = cluster.request(find_coordinator_api.API, request, deadline=deadline)
    response = cast("FindCoordinatorResponse", answer)
    found = response.coordinators[0] if response.coordinators else response  # before version 4 there is one
    code = error_code(found.error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"The coordinator of {key!r} is not known: {found.error_message or code.message}")
    return found.node_id
