"""M04: a consumer with no group name belongs to a default group, in our client and on our command line."""

from __future__ import annotations

from collections.abc import Callable

import penstock as library
from brokers import PenstockProcess
from cli.commands import run
from clients import Confluent, Record


def test_m04_the_client_and_the_command_line_share_the_default_group(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    Confluent().produce(penstock.bootstrap, topic, [Record(b"%d" % number) for number in range(10)])
    with library.Consumer(topic, penstock.bootstrap) as consumer:
        assert [next(consumer).offset for _ in range(4)] == [0, 1, 2, 3]
    printed = run("consume", topic, "--group", bootstrap=penstock.bootstrap).stdout
    assert printed.split() == ["4", "5", "6", "7", "8", "9"]
    assert "default" in run("group", "list", bootstrap=penstock.bootstrap).stdout.splitlines()
