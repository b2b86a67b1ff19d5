"""Read what was written since a moment, without reading what came before."""

import os
from datetime import UTC, datetime, timedelta

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
now = datetime.now(UTC)

with penstock.Producer(BOOTSTRAP) as producer:
    # A message carries the time at which it was sent; here we pretend.
    for minutes in (90, 60, 30, 10, 0):
        producer.send("events", f"{minutes} minutes ago", timestamp=now - timedelta(minutes=minutes))

# The broker finds the first message at or after the time by its index, however large the topic is.
since = now - timedelta(minutes=45)
with penstock.Consumer("events", BOOTSTRAP, partitions="all", start=since, stop_at_end=True) as consumer:
    for message in consumer:
        print(f"{message.time:%H:%M} {message.value.decode()}")
