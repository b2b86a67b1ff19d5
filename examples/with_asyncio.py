"""A producer and a consumer in one event loop."""

import asyncio
import os

from confluent_kafka.admin import AdminClient, NewTopic

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


async def send() -> None:
    async with penstock.AsyncProducer(BOOTSTRAP) as producer:
        delivery = await producer.send_and_wait("chat", "hello")
        print(f"sent to offset {delivery.offset}")
        # Many at once: send gives a future, so that nobody waits for each.
        futures = [await producer.send("chat", f"message {number}") for number in range(100)]
        await asyncio.gather(*futures)
        await producer.send("chat", "bye")


async def receive() -> None:
    count = 0
    async with penstock.AsyncConsumer("chat", BOOTSTRAP, partitions="all", start="latest") as consumer:
        sending = asyncio.create_task(send())
        async for message in consumer:
            count += 1
            if message.value == b"bye":
                break
        await sending
    print(f"got {count} messages")


# Who begins at the latest message needs the topic to be there; a message that is sent would make it too late.
admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
if "chat" not in admin.list_topics(timeout=10).topics:
    admin.create_topics([NewTopic("chat", num_partitions=1)])["chat"].result()
asyncio.run(receive())
