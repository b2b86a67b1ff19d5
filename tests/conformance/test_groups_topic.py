"""`__consumer_offsets` is the broker's own: clients may read it, and not write to it."""

from __future__ import annotations

import raw
from raw import Code


def test_clients_do_not_write_to_it(connection: raw.Connection, group: str) -> None:
    answer = raw.produce(connection, "__consumer_offsets", raw.batch([b"v"], keys=[b"k"]))
    assert answer.error_code == Code.invalid_topic_exception
