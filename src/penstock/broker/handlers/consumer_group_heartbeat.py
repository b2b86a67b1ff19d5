"""ConsumerGroupHeartbeat, versions 0 and 1: be a member of a consumer group (KIP-848).

See `groups/consumer_heartbeat`. The answer comes when what it says is committed. A new target is made with the first
heartbeat that finds it missing, at most one in `group.consumer.assignment.interval.ms`: 0 here, and 1000 in Kafka.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.groups.consumer_coordinator import refused
from penstock.broker.groups.outcome import Client
from penstock.errors import KafkaError
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def handle(context: Context, call: Call, request: ConsumerGroupHeartbeatRequest) -> Later:
    later = Later()

    def answer(response: ConsumerGroupHeartbeatResponse) -> None:
        later.finish(lambda: response)

    client = Client(call.version, call.client_id or "", f"/{call.connection.peer_address[0]}")
    context.groups.heartbeat_consumer(request, client, answer)
    return later


def refuse(_call: Call, _request: ConsumerGroupHeartbeatRequest, error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return refused(error)
