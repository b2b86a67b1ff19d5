"""M12: one binary batch format for producer, broker, disk and consumer."""

from __future__ import annotations

from collections.abc import Callable

import raw
from brokers import PenstockProcess

AFTER_EPOCH = 16
"""Base offset, length and leader epoch stand before it: all that the broker writes into a batch."""


def test_m12_the_same_bytes_on_the_wire_on_disk_and_on_the_wire_again(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    sent = raw.batch([b"%d" % number * 50 for number in range(100)], compression=1)
    with raw.Connection(penstock.bootstrap) as connection:
        raw.produce(connection, topic, sent)
        fetched = bytes(raw.fetch(connection, topic).records)
    on_disk = (penstock.log_dir / f"{topic}-0" / "00000000000000000000.log").read_bytes()
    assert fetched == on_disk
    assert on_disk[AFTER_EPOCH:] == sent[AFTER_EPOCH:]
