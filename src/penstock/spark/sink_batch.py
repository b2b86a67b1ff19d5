"""What the driver does when all tasks of a batch are done: a last check, and the batch's summary.

The summary says that the whole batch is in the topic. A batch that is run again finds it, and writes nothing, whatever
tasks it has then: that covers a driver that dies after this and before Spark's own commit.

The check: a batch that was cut in the middle and then run again with fewer tasks may have left markers of tasks that it
no longer has. Then those rows are in the topic twice. Tasks cannot see that, because none of them knows how many they
are; the driver does, and says so.
"""

from __future__ import annotations

from penstock.client.cluster import Cluster
from penstock.spark.sink_marker import Marker, read_marker, write_marker
from penstock.spark.sink_task import ReplayError, task_name


def finish_batch(cluster: Cluster, sink_id: str, batch_id: int, task_count: int, topic: str) -> None:
    """ReplayError when tasks that the batch no longer has wrote a part of it."""
    before = read_marker(cluster, sink_id)
    if before.next_batch_id > batch_id:
        return
    _check_no_task_is_left(cluster, sink_id, batch_id, task_count, before.note.get("tasks", task_count))
    write_marker(cluster, sink_id, topic, Marker(batch_id + 1, {"tasks": task_count}))


def _check_no_task_is_left(cluster: Cluster, sink_id: str, batch_id: int, task_count: int, count_before: int) -> None:
    """The batch before tells how many tasks there may have been."""
    names = [task_name(sink_id, task) for task in range(task_count, count_before)]
    left = [name for name in names if read_marker(cluster, name).next_batch_id == batch_id + 1]
    if left:
        raise ReplayError(
            f"Batch {batch_id} was interrupted and then run again with {task_count} tasks instead of {count_before}: "
            f"what {', '.join(left)} had written is in the topic twice. To go on in spite of that, delete these "
            f"groups: `penstock group delete {left[0]}`."
        )
