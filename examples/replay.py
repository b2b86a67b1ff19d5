"""Rewind: read everything again, from the start, from an offset, or from the last few messages."""

import os

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")

with penstock.Producer(BOOTSTRAP) as producer:
    for number in range(10):
        producer.send("measurements", str(number), partition=0)

with penstock.Consumer("measurements", BOOTSTRAP, group="dashboard", stop_at_end=True) as consumer:
    print(f"new: {len(list(consumer))} messages")

    consumer.seek("earliest")
    everything = list(consumer)
    print(f"all: {len(everything)} messages")

    last = everything[-1]
    consumer.seek(last.offset - 2, [last.where])
    print("the last three:", *[message.value.decode() for message in consumer])
