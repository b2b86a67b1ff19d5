"""A transactional producer of version 2 by raw frames, whose connection keeps breaking; it records what it did.

    producer = FlakyProducer(proxy.bootstrap, recorder, topic, partitions=2, chance=random.Random(1))
    producer.run(transactions=30)

Each transaction writes some values, one batch each, and is committed or aborted. When the connection breaks under a
Produce, the producer does what clients do: it connects again and sends the same batch with the same sequence, or gives
up and aborts the transaction; the batch may be in the log or not. An EndTxn it sends again until it is answered.

It sends again, too, what it is told to try again. Kafka's leader puts a batch off while it asks the coordinator about
another copy of it.
"""

from __future__ import annotations

import random
import time

from kio.schema.errors import ErrorCode as Code

import raw
from penstock.testing.history import Recorder
from transactional import Transactional

PRODUCE_VERSION, END_VERSION = 12, 5
TRY_AGAIN = (Code.not_enough_replicas, Code.concurrent_transactions)
BACKOFF_SECONDS = 0.02
MAX_BATCHES = 4
MAX_ATTEMPTS = 100
"""For one request: a connection that always breaks ends the test."""


class FlakyProducer:
    """One transactional id, one transaction after the other."""

    def __init__(self, bootstrap: str, recorder: Recorder, topic: str, partitions: int, chance: random.Random) -> None:
        self._bootstrap = bootstrap
        self._recorder = recorder
        self._topic = topic
        self._partitions = partitions
        self._chance = chance
        self.client = Transactional(bootstrap)

    def run(self, transactions: int) -> None:
        assert self.client.settled(self.client.init) == 0
        for _ in range(transactions):
            transaction = self._recorder.begin()
            count = self._chance.randint(1, MAX_BATCHES)
            is_complete = all(self._write(transaction, f"{transaction}.{number}") for number in range(count))
            self._end(transaction, is_complete and self._chance.random() < 0.7)

    def _write(self, transaction: str, value: str) -> bool:
        """Whether it is known to be in the log."""
        partition = self._chance.randrange(self._partitions)
        sequence = self.client.sequences.get((self._topic, partition), 0)
        identity = (self.client.producer_id, self.client.epoch, sequence)
        records = raw.batch([value.encode()], identity, is_transactional=True)
        self._recorder.send(value, transaction)
        for _ in range(MAX_ATTEMPTS):
            try:
                answer = raw.produce(
                    self.client,
                    self._topic,
                    records,
                    partition,
                    version=PRODUCE_VERSION,
                    transactional_id=self.client.id,
                )
            except ConnectionError:
                self._reconnect()
                if self._chance.random() < 0.5:
                    return False
                continue
            if answer.error_code in TRY_AGAIN:
                time.sleep(BACKOFF_SECONDS)
                continue
            assert answer.error_code == 0, answer
            self.client.sequences[self._topic, partition] = sequence + 1
            self._recorder.acknowledged(value, f"{self._topic}-{partition}", answer.base_offset)
            return True
        raise AssertionError(f"{value} was not answered in {MAX_ATTEMPTS} attempts")

    def _end(self, transaction: str, committed: bool) -> None:
        if committed:
            self._recorder.commit(transaction)
        for _ in range(MAX_ATTEMPTS):
            try:
                code = self.client.settled(lambda: self.client.end(committed, END_VERSION))
            except ConnectionError:
                self._reconnect()
                continue
            assert code == 0, f"{transaction} did not end: {code}"
            (self._recorder.committed if committed else self._recorder.aborted)(transaction)
            return
        raise AssertionError(f"{transaction} did not end in {MAX_ATTEMPTS} attempts")

    def _reconnect(self) -> None:
        """The same producer on a new connection."""
        old, self.client = self.client, Transactional(self._bootstrap, self.client.id)
        old.close()
        self.client.producer_id, self.client.epoch = old.producer_id, old.epoch
        self.client.sequences = old.sequences

    def close(self) -> None:
        self.client.close()
