"""A producer that records its transactions: what began, what was sent, acknowledged, read, and how it ended.

    producer = RecordedProducer(penstock.Producer(bootstrap, transactional_id="copy-1"), Recorder(path, "copy-1.3"))
    process(consumer, producer, lambda message: producer.took(message) or Send("out", value_of(message)))

It stands in for `penstock.Producer` in `penstock.process`. Values are text, or bytes of text, and each is sent once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.client.facade.client_error import TransactionAborted
from penstock.errors import KafkaError
from penstock.testing.history.recorder import Recorder

if TYPE_CHECKING:
    from penstock.client.facade.consumer import Consumer
    from penstock.client.facade.message import Delivery, Message
    from penstock.client.facade.producer import Producer


class RecordedProducer:
    """One producer, and the recorder of its process."""

    def __init__(self, producer: Producer, recorder: Recorder) -> None:
        self._producer = producer
        self._recorder = recorder
        self.current: str | None = None
        """The name of the transaction that is open."""

    def send(self, topic: str, value: Any = None, *args: Any, **settings: Any) -> None:
        text = _text(value)
        self._recorder.send(text, self.current)

        def told(delivery: Delivery | None, error: KafkaError | None) -> None:
            if delivery is not None and delivery.offset is not None:
                self._recorder.acknowledged(text, f"{delivery.topic}-{delivery.partition}", delivery.offset)

        self._producer.send(topic, value, *args, **settings, on_delivery=told)

    def took(self, message: Message) -> None:
        """The open transaction read this message."""
        self._recorder.poll([(message.where, message.offset, _text(message.value))], self.current)

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        name = self.current = self._recorder.begin()
        try:
            with self._producer.transaction(consumer):
                yield
                if consumer is not None:
                    self._recorder.positions(name, consumer.group, consumer.intake.ends)
                self._recorder.commit(name)
        except TransactionAborted:
            self._recorder.aborted(name)
            raise
        else:
            self._recorder.committed(name)
        finally:
            self.current = None
            self._recorder.place()  # what is not committed is read again


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
