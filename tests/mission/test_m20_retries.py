"""M20: after a passing error the message is neither lost nor, with idempotence, doubled."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka

import raw
from brokers import PenstockProcess
from clients import Confluent

ROUNDS = 3
MOST_UNSENT = 2000


def test_m20_a_broker_killed_and_restarted_under_an_idempotent_producer(tmp_path: Path) -> None:
    delivered: list[bytes] = []

    def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        delivered.append(message.value() or b"")

    with PenstockProcess(tmp_path) as broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, "t")
        config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
        producer = confluent_kafka.Producer({**config, "log_level": 0, "linger.ms": 1})
        count = 0
        for _ in range(ROUNDS):
            until = len(delivered) + 500
            while len(delivered) < until:
                producer.produce("t", b"%d" % count, on_delivery=on_delivery)
                producer.poll(0.1 if len(producer) > MOST_UNSENT else 0)
                count += 1
            broker.kill()
            for _ in range(100):
                producer.produce("t", b"%d" % count, on_delivery=on_delivery)
                count += 1
            broker.start()
        assert producer.flush(60) == 0
        sent = [b"%d" % number for number in range(count)]
        assert delivered == sent
        assert [record.value for record in Confluent().consume(broker.bootstrap, "t", 0, count)] == sent
        with raw.Connection(broker.bootstrap) as connection:
            assert raw.fetch(connection, "t", count).high_watermark == count, "nothing is there twice"
