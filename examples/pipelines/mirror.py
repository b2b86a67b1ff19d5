"""mirror: a topic copied to another cluster, where a group goes on.

Needs `pip install 'penstock[spark]'`. The other cluster is a broker in this process, so that the example runs alone.
"""

import os
import tempfile
import uuid

import pyarrow as pa

import penstock
from penstock import testing
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.spark.java import spark_session
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import run_project

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HERE = tempfile.mkdtemp(prefix="penstock-mirror-")

with Cluster(BOOTSTRAP) as cluster:
    Admin(cluster).create_topic(TOPIC)
penstock.write(TOPIC, pa.table({"key": ["ann", "bob"], "value": ["book", "lamp"]}), bootstrap=BOOTSTRAP)

with testing.Cluster() as other:
    spark = spark_session("example")
    init_project(f"{HERE}/project", "mirror", source=BOOTSTRAP, target=other.bootstrap, topics=TOPIC)
    run_project(spark, f"{HERE}/project")
    # Then: penstock pipeline move-group GROUP --from BOOTSTRAP --to OTHER --execute
    for row in penstock.read(TOPIC, bootstrap=other.bootstrap).read_all().to_pylist():
        print(f"partition {row['partition']}, offset {row['offset']}: {row['key'].decode()} {row['value'].decode()}")
