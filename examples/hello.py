"""Send a message and read it back."""

import os

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")

with penstock.Producer(BOOTSTRAP) as producer:
    delivery = producer.send("hello", "it works").result()
    print(f"sent to {delivery.topic}, partition {delivery.partition}, offset {delivery.offset}")

# Without a group we read the partition from its beginning each time; stop_at_end ends the loop when there is no more.
with penstock.Consumer("hello", BOOTSTRAP, partitions="all", stop_at_end=True) as consumer:
    for message in consumer:
        print(f"got {message.value.decode()!r} from offset {message.offset}")
