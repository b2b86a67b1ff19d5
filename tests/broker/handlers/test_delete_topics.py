"""DeleteTopics where deletion is disabled; the rest is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process import connected, create_topic, run, running
from penstock.errors import ErrorCode
from penstock.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState

CODES = dict.fromkeys((1, 2), ErrorCode.INVALID_REQUEST) | dict.fromkeys(range(3, 7), ErrorCode.TOPIC_DELETION_DISABLED)


@pytest.mark.parametrize("version", CODES)
def test_old_clients_are_told_so_in_a_code_that_they_know(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "delete.topic.enable=false") as broker, connected(broker) as client:
            await create_topic(broker, "t")
            by_name = DeleteTopicsRequest(topics=[DeleteTopicState("t")], topic_names=["t"])
            (told,) = (await client.call(20, version, by_name)).responses
            assert (told.name, told.error_code) == ("t", CODES[version])
            assert "t" in broker.context.replicas.by_name

    run(scenario())
