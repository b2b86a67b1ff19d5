"""load: a CSV file becomes messages of a topic, a row each, once.

Needs `pip install 'penstock[spark]'`. Parquet, JSON, a JDBC or a DuckDB table go in likewise.
"""

import os
import tempfile
import uuid
from pathlib import Path

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-load-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC)
files = Path(HERE) / "in"
files.mkdir()
(files / "orders.csv").write_text("id,item,amount\n1,book,12.5\n2,lamp,40\n")

spark = spark_session("example")
settings = {"kind": "csv", "path": str(files), "schema": "id STRING, item STRING, amount DOUBLE", "key": "id"}
init_project(f"{HERE}/project", "load", topic=TOPIC, bootstrap=BOOTSTRAP, **settings)
for _ in range(2):  # what is loaded is not loaded again
    run_project(spark, f"{HERE}/project")

for row in penstock.read(TOPIC, bootstrap=BOOTSTRAP).read_all().to_pylist():
    print(f"{row['key'].decode()}: {row['value'].decode()}")
