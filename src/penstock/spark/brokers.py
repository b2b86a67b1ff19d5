"""Connections to the brokers, from the driver and from a task.

Rules:
- the driver's first broker that does not answer is an error at once: a mistyped port shows before anything runs. One
  that was reached before is waited for, `kafka.default.api.timeout.ms` long;
- a task runs because the driver has just reached the brokers, so a task waits already for its first: then a broker that
  restarts costs time, and not one of the task's few attempts.
"""

from __future__ import annotations

from penstock.client.cluster import Cluster
from penstock.errors import ErrorCode, KafkaError
from penstock.spark.options import Connecting


def connect(connecting: Connecting) -> Cluster:
    """For the driver."""
    return Cluster(connecting.bootstrap, client_id=connecting.client_id, timeout_ms=connecting.timeout_ms)


def connect_from_task(connecting: Connecting, timeout_ms: float) -> Cluster:
    """For a task; the first answer has come."""
    cluster = Cluster(connecting.bootstrap, client_id=connecting.client_id, timeout_ms=timeout_ms)
    try:
        cluster.retry(lambda deadline: _first_contact(cluster, deadline))
    except BaseException:
        cluster.close()
        raise
    return cluster


def _first_contact(cluster: Cluster, deadline: float) -> None:
    try:
        cluster.refresh((), deadline=deadline)
    except KafkaError as error:
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        raise
