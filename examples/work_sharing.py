"""Two workers of one group: each message goes to one of them. Start more workers and each gets less."""

import os
import threading
import time
import uuid

from confluent_kafka.admin import AdminClient, NewTopic

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"jobs-{uuid.uuid4().hex[:8]}"
JOBS = 100
shares: dict[str, int] = {}
done: list[str] = []


def work(name: str) -> None:
    """One worker. In real life each is a process of its own, on any machine."""

    def on_assigned(partitions: list[penstock.TopicPartition]) -> None:
        shares[name] = len(partitions)

    count = 0
    with penstock.Consumer(TOPIC, BOOTSTRAP, group="workers", on_assigned=on_assigned) as consumer:
        while len(done) < JOBS:
            message = consumer.poll(0.1)
            if message is not None:
                done.append(message.value.decode())
                count += 1
    print(f"{name} did {count} jobs")


admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
admin.create_topics([NewTopic(TOPIC, num_partitions=4)])[TOPIC].result()
workers = [threading.Thread(target=work, args=(name,)) for name in ("worker 1", "worker 2")]
for worker in workers:
    worker.start()
while list(shares.values()) != [2, 2]:  # the group shares the four partitions out when a worker joins or leaves
    time.sleep(0.05)
with penstock.Producer(BOOTSTRAP) as producer:
    for number in range(JOBS):
        producer.send(TOPIC, f"job {number}", partition=number % 4, forget=True)
for worker in workers:
    worker.join()
print(f"{len(done)} jobs were done, {len(set(done))} different ones")
