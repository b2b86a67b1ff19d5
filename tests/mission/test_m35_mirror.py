"""M35: a topic copied continuously to another cluster, order kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as library
from penstock.testing import Cluster
from pipelines import Streaming, make_project

pytestmark = pytest.mark.slow


def test_a_topic_is_copied_while_it_grows_in_its_order(spark, penstock, topic_on_penstock, tmp_path):
    topic, sent = topic_on_penstock(2), 0

    def send(count: int) -> int:
        partitions = pa.array([n % 2 for n in range(sent, sent + count)], pa.int32())
        rows = pa.table({"value": [str(n) for n in range(sent, sent + count)], "partition": partitions})
        library.write(topic, rows, bootstrap=penstock.bootstrap)
        return sent + count

    with Cluster() as other:

        def copied() -> list[list[int]]:
            return [
                [int(value) for value in read(other.bootstrap, partition)] for partition in range(2)
            ]  # fmt: skip

        def read(bootstrap: str, partition: int) -> list[bytes]:
            rows = library.read(topic, start={partition: 0}, columns=["value"], bootstrap=bootstrap)
            return rows.read_all()["value"].to_pylist()

        sent = send(100)
        values = {"source": penstock.bootstrap, "target": other.bootstrap, "topics": topic}
        with Streaming(spark, make_project(tmp_path / "p", "mirror", **values)) as streaming:
            streaming.wait_until(lambda: streaming.progress.get("mirror") and streaming.progress["mirror"].rows == 100)
            for _ in range(3):
                sent = send(100)
                expected = [list(range(partition, sent, 2)) for partition in range(2)]
                streaming.wait_until(lambda expected=expected: copied() == expected)
