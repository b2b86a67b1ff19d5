"""live: orders per minute and customer, counted into another topic.

Needs `pip install 'penstock[spark]'`. To keep it on: `penstock pipeline stream`.
"""

import json
import os
import tempfile
import uuid
from datetime import UTC, datetime

import pyarrow as pa

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-live-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC, configs={"retention.ms": "-1"})
    Admin(cluster).create_topic(f"{TOPIC}-per-minute")
moments = [datetime(2024, 5, 1, 12, 0, 10, tzinfo=UTC), datetime(2024, 5, 1, 12, 0, 50, tzinfo=UTC)]
later = datetime(2024, 5, 1, 12, 5, tzinfo=UTC)  # a message from later ends the window
times = pa.array([*moments, later], pa.timestamp("ms", "UTC"))
orders = pa.table({"key": ["ann", "ann", "bob"], "value": ["book", "lamp", "chair"], "timestamp": times})
penstock.write(TOPIC, orders, bootstrap=BOOTSTRAP)

spark = spark_session("example", settings={"spark.sql.session.timeZone": "UTC"})
init_project(f"{HERE}/project", "live", topic=TOPIC, bootstrap=BOOTSTRAP, target=f"{TOPIC}-per-minute")
run_project(spark, f"{HERE}/project")

for row in penstock.read(f"{TOPIC}-per-minute", bootstrap=BOOTSTRAP).read_all().to_pylist():
    counted = json.loads(row["value"])
    print(f"{row['key'].decode()}: {counted['count']} from {counted['start']}")
