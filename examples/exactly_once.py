"""Read, process, write: each order becomes one invoice, though the program crashes in the middle of its work.

Position and invoices are committed in one transaction, so what a crash interrupts was never there. A program that runs
on several machines gives each its own transactional_id, and the same one each time it starts.
"""

import os
import uuid

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
RUN = uuid.uuid4().hex[:8]
ORDERS, INVOICES = f"orders-{RUN}", f"invoices-{RUN}"
crashes = ["the power went out"]


def invoice(message: penstock.Message) -> penstock.Send:
    if message.offset == 3 and crashes:
        raise RuntimeError(crashes.pop())
    print(f"makes the invoice for {message.value.decode()}")
    return penstock.Send(INVOICES, f"invoice for {message.value.decode()}", key=message.key)


def run() -> None:
    settings = {"group": f"billing-{RUN}", "delivery": "exactly_once", "stop_at_end": True}
    with (
        penstock.Consumer(ORDERS, BOOTSTRAP, **settings) as consumer,
        penstock.Producer(BOOTSTRAP, transactional_id=f"billing-{RUN}") as producer,
    ):
        penstock.process(consumer, producer, invoice, batch_size=2)


with penstock.Producer(BOOTSTRAP) as producer:
    for item in ("book", "lamp", "chair", "table", "clock"):
        producer.send(ORDERS, item, partition=0)
try:
    run()
except RuntimeError as error:
    print(f"crashed: {error}")
run()
with penstock.Consumer(INVOICES, BOOTSTRAP, partitions="all", stop_at_end=True) as consumer:
    for message in consumer:
        print(message.value.decode())
