"""M36: the three run side by side over one topic, each with its own progress, none disturbing another."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest

import penstock as library
from cli.commands import run as command
from penstock.client.cluster import Cluster as Connections
from penstock.client.groups import Groups
from penstock.testing import Cluster
from pipelines import Streaming, make_project
from ports import free_ports

pytestmark = pytest.mark.slow


def test_three_flows_over_one_topic_do_not_disturb_each_other(spark, penstock, topic_on_penstock, tmp_path):
    topic, target, lake = topic_on_penstock(2), topic_on_penstock(), tmp_path / "lake"
    other_port = free_ports(1)[0]

    def send(count: int) -> None:
        rows = pa.table({"key": [str(n) for n in range(count)], "value": ["sold"] * count})
        library.write(topic, rows, bootstrap=penstock.bootstrap)

    def rows_in_lake() -> int:
        return duckdb.sql(f"SELECT count(*) FROM '{lake}/**/*.parquet'").fetchall()[0][0]

    make_project(tmp_path / "p", "lake", topic=topic, bootstrap=penstock.bootstrap, path=str(lake), batch="150")
    make_project(tmp_path / "p", "live", topic=topic, bootstrap=penstock.bootstrap, target=target)
    project = make_project(
        tmp_path / "p", "mirror", source=penstock.bootstrap, target=f"127.0.0.1:{other_port}", topics=topic
    )  # fmt: skip
    send(300)
    with Streaming(spark, project) as streaming:
        # The mirror's target is away: the mirror waits for it, and the others do not notice.
        streaming.wait_until(lambda: _rows(streaming, "lake") == 300 and _rows(streaming, "live") == 300)
        assert _rows(streaming, "mirror") == 0
        with Cluster(port=other_port) as other:
            streaming.wait_until(lambda: _rows(streaming, "mirror") == 300)
            send(200)
            streaming.wait_until(lambda: [_rows(streaming, name) for name in ("lake", "live", "mirror")] == [500] * 3)
            copied = library.read(topic, bootstrap=other.bootstrap, columns=["offset"]).read_all().num_rows
    assert copied == 500
    assert rows_in_lake() == 500
    assert streaming.progress["lake"].batch_count > streaming.progress["mirror"].batch_count  # each at its own pace
    status = json.loads(
        command("pipeline", "status", str(tmp_path / "p"), "--json", bootstrap=penstock.bootstrap).stdout
    )
    assert {each["flow"]: each["lag"] for each in status} == {"lake": 0, "live": 0, "mirror": 0}
    with Connections(penstock.bootstrap) as connections:
        committed = Groups(connections).committed_by([f"{topic}-lake", f"{topic}-live"])
    assert [sum(each.values()) for each in committed.values()] == [500, 500]


def _rows(streaming: Streaming, flow: str) -> int:
    found = streaming.progress.get(flow)
    return found.rows if found else 0
