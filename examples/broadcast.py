"""Two groups read one topic: each gets every message, at its own pace. Reading removes nothing."""

import os

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")

with penstock.Producer(BOOTSTRAP) as producer:
    for item in ("book", "lamp", "chair"):
        producer.send("sales", item)

for group in ("billing", "shipping"):
    # A group remembers how far it is, so a second run of this program prints only what is new.
    with penstock.Consumer("sales", BOOTSTRAP, group=group, stop_at_end=True) as consumer:
        for message in consumer:
            print(f"{group} got {message.value.decode()}")
