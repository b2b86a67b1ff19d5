"""A program that crashes in the middle of a message gets that message again: commit when the work is done.

`commit="manual"` shows it step by step. Without it the consumer commits by itself what you have come back from, which
gives the same guarantee. A message may come twice, so make the work repeatable: here the result has a key.
"""

import os
import uuid

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"payments-{uuid.uuid4().hex[:8]}"
booked: dict[tuple[int, int], str] = {}


def book_payments(crash_at: int | None = None) -> None:
    """Read payments and book each; maybe crash after the booking, before the commit: the worst moment."""
    with penstock.Consumer(TOPIC, BOOTSTRAP, group="bookkeeping", commit="manual", stop_at_end=True) as consumer:
        for message in consumer:
            booked[message.partition, message.offset] = message.value.decode()
            print(f"booked {message.value.decode()}")
            if message.offset == crash_at:
                raise RuntimeError("the power went out")
            consumer.commit(message)


with penstock.Producer(BOOTSTRAP) as producer:
    for amount in (10, 20, 30, 40):
        producer.send(TOPIC, f"{amount} EUR", partition=0)

try:
    book_payments(crash_at=1)
except RuntimeError as error:
    print(f"crashed: {error}")
book_payments()
print(f"{len(booked)} payments are booked")
