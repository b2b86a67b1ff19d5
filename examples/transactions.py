"""A transfer is two messages in two topics: readers see both or none, even when the program fails between them."""

import os
import uuid

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
RUN = uuid.uuid4().hex[:8]
ANN, BOB = f"account-ann-{RUN}", f"account-bob-{RUN}"


def transfer(producer: penstock.Producer, amount: int) -> None:
    with producer.transaction():
        producer.send(ANN, f"-{amount}")
        if amount > 100:
            raise ValueError("that is more than Ann has")
        producer.send(BOB, f"+{amount}")


def statement(account: str) -> str:
    with penstock.Consumer(account, BOOTSTRAP, partitions="all", stop_at_end=True) as consumer:
        return " ".join(message.value.decode() for message in consumer)


with penstock.Producer(BOOTSTRAP, transactional_id=f"bank-{RUN}") as producer:
    transfer(producer, 30)
    try:
        transfer(producer, 500)
    except ValueError as error:
        print(f"not transferred: {error}")
    transfer(producer, 20)
print(f"Ann: {statement(ANN)}")
print(f"Bob: {statement(BOB)}")
