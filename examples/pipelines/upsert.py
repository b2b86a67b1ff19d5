"""upsert: the last message of each key is a row of a database table; here of SQLite.

Needs `pip install 'penstock[spark]'`. For PostgreSQL: database=postgresql://user@host/name, and psycopg.
"""

import json
import os
import sqlite3
import tempfile
import uuid

import pyarrow as pa

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-upsert-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC)
orders = [("1", "book", 1), ("2", "lamp", 1), ("1", "book", 3)]
values = [json.dumps({"id": key, "item": item, "amount": amount}) for key, item, amount in orders]
keys = [key for key, _, _ in orders]
penstock.write(TOPIC, pa.table({"key": [*keys, "2"], "value": [*values, None]}), bootstrap=BOOTSTRAP)

database = sqlite3.connect(f"{HERE}/shop.db")
database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT, amount REAL)")

spark = spark_session("example")
settings = {"database": f"sqlite:///{HERE}/shop.db", "columns": "id STRING, item STRING, amount DOUBLE"}
init_project(f"{HERE}/project", "upsert", topic=TOPIC, bootstrap=BOOTSTRAP, **settings)
run_project(spark, f"{HERE}/project")

for row in database.execute("SELECT * FROM orders"):
    print(row)
