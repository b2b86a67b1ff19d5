"""The programs of docs/arrow.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.testing import Cluster as LocalCluster

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "arrow.md"


def test_the_programs_of_the_guide_run() -> None:
    programs = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(programs) == 3
    with LocalCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        penstock.write("orders", pa.table({"key": ["a", "b"], "value": ["1", "2"]}), cluster.bootstrap)
        scope: dict[str, object] = {}
        code = "\n".join(programs).replace('"orders"', '"orders", bootstrap=BOOTSTRAP')
        code = code.replace(
            'write("orders", bootstrap=BOOTSTRAP, pa.table(', 'write("orders", bootstrap=BOOTSTRAP, data=pa.table('
        )
        exec(f"BOOTSTRAP = {cluster.bootstrap!r}\n{code}", scope)
        assert scope["table"].num_rows == 2
        assert scope["frame"]["value"].tolist() == [b"1", b"2"] or len(scope["frame"]) == 2
        assert scope["result"].row_count == 2
