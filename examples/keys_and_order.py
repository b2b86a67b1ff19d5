"""Messages of one key go to one partition and stay in order; between partitions there is no order."""

import os
from collections import defaultdict

from confluent_kafka.admin import AdminClient, NewTopic

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "customers"

admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
if TOPIC not in admin.list_topics(timeout=10).topics:
    admin.create_topics([NewTopic(TOPIC, num_partitions=3)])[TOPIC].result()

with penstock.Producer(BOOTSTRAP) as producer:
    for step in ("registers", "orders", "pays"):
        for customer in ("ann", "bob", "cho", "dan"):
            producer.send(TOPIC, f"{customer} {step}", key=customer)

stories = defaultdict(list)
with penstock.Consumer(TOPIC, BOOTSTRAP, partitions="all", stop_at_end=True) as consumer:
    for message in consumer:
        stories[message.key.decode(), message.partition].append(message.value.decode().split()[1])

for (customer, partition), steps in sorted(stories.items()):
    print(f"{customer} is in partition {partition}: {', '.join(steps[-3:])}")
