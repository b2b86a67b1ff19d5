"""delta: messages become a Delta table, by delta-rs: no jar and no catalog.

Needs `pip install 'penstock[spark]' deltalake`.
"""

import os
import tempfile
import uuid

import pyarrow as pa
from deltalake import DeltaTable

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-delta-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC)

spark = spark_session("example")
init_project(f"{HERE}/project", "delta", topic=TOPIC, bootstrap=BOOTSTRAP, path=f"{HERE}/table")
for value in ("book", "lamp"):
    penstock.write(TOPIC, pa.table({"value": [value]}), bootstrap=BOOTSTRAP)
    run_project(spark, f"{HERE}/project")

table = DeltaTable(f"{HERE}/table")
print(f"version {table.version()}: {sorted(value.decode() for value in table.to_pyarrow_table()['value'].to_pylist())}")
