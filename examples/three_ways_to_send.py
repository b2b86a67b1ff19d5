"""Send and wait for the result, send and be called back, send and forget."""

import os

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


def told(delivery: penstock.Delivery | None, error: penstock.KafkaError | None) -> None:
    """Runs in the producer's thread when the broker has answered."""
    print(f"callback: offset {delivery.offset}" if delivery else f"callback: failed, {error}")


with penstock.Producer(BOOTSTRAP) as producer:
    # Wait: the slowest and the surest. The future gives the place of the message, or raises why there is none.
    delivery = producer.send("three-ways", "important").result(timeout=30)
    print(f"waited: offset {delivery.offset}")

    # Send many, wait once: the futures are there when you need them.
    futures = [producer.send("three-ways", f"number {number}") for number in range(100)]
    print(f"together: offset {max(future.result().offset for future in futures)} is the last")

    # Be called back: no waiting, and you hear of each.
    producer.send("three-ways", "tell me", on_delivery=told)

    # Forget: the fastest. A failure is only logged.
    producer.send("three-ways", "a metric, one of many", forget=True)
# The end of the with waits until everything is delivered.
