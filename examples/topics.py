"""Create a topic, look at it, and change how long its messages are kept.

Everything that confluent-kafka's admin client can do works; `penstock topic --help` does the same in the shell.
"""

import os
import uuid

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = f"archive-{uuid.uuid4().hex[:8]}"
HOUR_MS = 60 * 60 * 1000

admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
new = NewTopic(TOPIC, num_partitions=3, config={"retention.ms": str(24 * HOUR_MS)})
admin.create_topics([new])[TOPIC].result()

described = admin.list_topics(TOPIC, timeout=10).topics[TOPIC]
for number, partition in sorted(described.partitions.items()):
    print(f"partition {number}: leader {partition.leader}, in sync {partition.isrs}")


def retention_hours() -> int:
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    return int(admin.describe_configs([resource])[resource].result()["retention.ms"].value) // HOUR_MS


print(f"messages are kept for {retention_hours()} hours")
week = ConfigEntry("retention.ms", str(7 * 24 * HOUR_MS), incremental_operation=AlterConfigOpType.SET)
change = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[week])
admin.incremental_alter_configs([change])[change].result()
print(f"messages are kept for {retention_hours()} hours")

admin.delete_topics([TOPIC])[TOPIC].result()
print("deleted")
