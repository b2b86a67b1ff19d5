"""Each payment is booked once, though its message comes twice: the database's primary key says what is booked.

The consumer commits after the database has (at least once), and (topic, partition, offset) is the key of a booking: one
that comes again changes nothing. Where messages have a key of their own, such as a payment's number, use that.

It books into SQLite, or into PostgreSQL: DATABASE=postgresql://user@host/name (pip install psycopg).
"""

import os
import sqlite3
import uuid

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"payments-{uuid.uuid4().hex[:8]}"
URL = os.environ.get("DATABASE", ":memory:")

if URL.startswith("postgresql:"):
    import psycopg

    database, mark = psycopg.connect(URL), "%s"
else:
    database, mark = sqlite3.connect(URL), "?"
INSERT = "INSERT INTO bookings VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING".replace("?", mark)
UPDATE = "UPDATE account SET balance = balance + ?".replace("?", mark)


def book(message: penstock.Message) -> None:
    """The booking and what follows from it in one transaction of the database."""
    amount = int(message.value)
    values = (message.topic, message.partition, message.offset, amount)
    cursor = database.cursor()
    is_new = cursor.execute(INSERT, values).rowcount == 1
    if is_new:
        cursor.execute(UPDATE, (amount,))
    database.commit()
    print(f"{amount}: {'booked' if is_new else 'was booked before'}")


database.cursor().execute("DROP TABLE IF EXISTS bookings")
database.cursor().execute("DROP TABLE IF EXISTS account")
columns = "topic TEXT, part INT, pos BIGINT, amount INT, PRIMARY KEY (topic, part, pos)"
database.cursor().execute(f"CREATE TABLE bookings ({columns})")
database.cursor().execute("CREATE TABLE account (balance INT)")
database.cursor().execute("INSERT INTO account VALUES (0)")
with penstock.Producer(BOOTSTRAP) as producer:
    for number in (10, 20, 30):
        producer.send(TOPIC, str(number), partition=0)
for group in ("books", "books-again"):  # a new group reads everything again, as after a loss of all positions
    with penstock.Consumer(TOPIC, BOOTSTRAP, group=f"{group}-{TOPIC}", commit="sync", stop_at_end=True) as consumer:
        for payment in consumer:
            book(payment)
cursor = database.cursor()
cursor.execute("SELECT balance FROM account")
print(f"balance: {cursor.fetchone()[0]}")
