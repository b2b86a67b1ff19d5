"""lake: messages become Parquet files by date, and DuckDB asks them questions.

Needs `pip install 'penstock[spark]' duckdb`.
"""

import os
import tempfile
import uuid

import duckdb
import pyarrow as pa

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-lake-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC, partitions=2)
orders = pa.table({"key": ["ann", "bob", "ann"], "value": ["10", "20", "30"]})
penstock.write(TOPIC, orders, bootstrap=BOOTSTRAP)

# The same as: penstock pipeline init project lake topic=... path=lake; penstock pipeline run project
spark = spark_session("example")
init_project(f"{HERE}/project", "lake", topic=TOPIC, bootstrap=BOOTSTRAP, path=f"{HERE}/lake")
(ended,) = run_project(spark, f"{HERE}/project")
print(f"{ended.flow} is {ended.state}: {ended.rows} rows")

files = duckdb.read_parquet(f"{HERE}/lake/**/*.parquet")
totals = files.aggregate("decode(key) AS name, sum(decode(value)::INTEGER)::INTEGER AS total").order("name")
for name, total in totals.fetchall():
    print(f"{name}: {total}")
