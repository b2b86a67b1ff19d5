"""Record what real clients and Apache Kafka say to each other: the project's own golden frames.

    python tests/record_frames.py [FILE]      # tests/golden/frames.jsonl unless named; needs Java, Maven and kcat

A proxy stands between the clients and one Kafka node, which advertises the proxy's address. Each line of the result is
one frame without its length: {"api", "version", "direction", "client", "frame" in hex}. For each API, version,
direction and client two frames of different size are kept, none above `MAX_KEPT_BYTES`: enough to hold the codec to,
small enough to look at. A scenario that a client cannot do is printed and left out.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin

from oracle import KafkaNode, run_tool
from ports import free_ports

FRAMES = Path(__file__).parent / "golden" / "frames.jsonl"
KEPT_PER_KIND = 2
MAX_KEPT_BYTES = 3000
MAX_FRAME_BYTES = 100 * 1024 * 1024
DEADLINE_SECONDS = 20.0

Kind = tuple[int, int, str, str]
"""API key, version, direction, client."""


class Recorder:
    """Keeps a few frames of each kind."""

    def __init__(self) -> None:
        self.frames: dict[Kind, list[bytes]] = defaultdict(list)

    def see(self, kind: Kind, frame: bytes) -> None:
        kept = self.frames[kind]
        if len(kept) < KEPT_PER_KIND and len(frame) <= MAX_KEPT_BYTES and len(frame) not in map(len, kept):
            kept.append(frame)

    def write(self, path: Path) -> None:
        lines = [
            json.dumps({"api": api, "version": version, "direction": direction, "client": client, "frame": frame.hex()})
            for (api, version, direction, client), frames in sorted(self.frames.items())
            for frame in frames
        ]
        path.write_text("\n".join(lines) + "\n")


class Proxy:
    """Passes frames on both ways and shows each to the recorder. Runs a loop in a thread of its own."""

    def __init__(self, recorder: Recorder, port: int, kafka_port: int) -> None:
        self._recorder = recorder
        self._port = port
        self._kafka_port = kafka_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        serving = asyncio.start_server(self._on_client, "127.0.0.1", self._port)
        asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._kafka_port)
        asked: dict[int, tuple[int, int, str]] = {}

        def on_request(frame: bytes) -> None:
            api, version, correlation_id = (int.from_bytes(frame[a:b]) for a, b in ((0, 2), (2, 4), (4, 8)))
            client = client_of(frame)
            asked[correlation_id] = (api, version, client)
            self._recorder.see((api, version, "request", client), frame)

        def on_response(frame: bytes) -> None:
            api, version, client = asked.pop(int.from_bytes(frame[:4]))
            if api == 18 and frame[4:6] == b"\x00\x23":
                version = 0
            self._recorder.see((api, version, "response", client), frame)

        await asyncio.gather(pass_on(reader, broker_writer, on_request), pass_on(broker_reader, writer, on_response))


def client_of(frame: bytes) -> str:
    """Which client sent the request: its client id up to the first digit or sign that it added."""
    size = int.from_bytes(frame[8:10], signed=True)
    name = frame[10 : 10 + size].decode() if size > 0 else ""
    for client in ("confluent", "kafka-python", "aiokafka", "kcat"):
        if name.startswith(client):
            return client
    return "java"


async def pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_frame: Callable[[bytes], None]
) -> None:
    try:
        while True:
            size = await reader.readexactly(4)
            assert int.from_bytes(size) <= MAX_FRAME_BYTES
            frame = await reader.readexactly(int.from_bytes(size))
            on_frame(frame)
            writer.write(size + frame)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def with_confluent(bootstrap: str) -> None:
    base = {"bootstrap.servers": bootstrap, "client.id": "confluent"}
    admin = confluent_kafka.admin.AdminClient(base)
    topic = confluent_kafka.admin.NewTopic("confluent", 2, 1, config={"retention.ms": "3600000"})
    wait_all(admin.create_topics([topic]))
    wait_all(admin.create_topics([topic, confluent_kafka.admin.NewTopic("bad name", 1, 1)]))
    for options in ({"acks": 1}, {"enable.idempotence": True, "compression.type": "zstd"}, {"acks": 0}):
        producer = confluent_kafka.Producer(base | options)
        for number in range(3):
            producer.produce("confluent", b"value", key=b"key", partition=number % 2, headers={"h": b"1"})
        producer.flush(DEADLINE_SECONDS)
    transactional = confluent_kafka.Producer(base | {"transactional.id": "confluent-tx"})
    transactional.init_transactions(DEADLINE_SECONDS)
    transactional.begin_transaction()
    transactional.produce("confluent", b"in a transaction", partition=0)
    transactional.commit_transaction(DEADLINE_SECONDS)
    for protocol in ("classic", "consumer"):
        group = {"group.id": f"confluent-{protocol}", "auto.offset.reset": "earliest", "group.protocol": protocol}
        consumer = confluent_kafka.Consumer(base | group)
        consumer.subscribe(["confluent"])
        consumer.consume(5, DEADLINE_SECONDS)
        consumer.commit(asynchronous=False)
        consumer.offsets_for_times([confluent_kafka.TopicPartition("confluent", 0, 1)], timeout=DEADLINE_SECONDS)
        consumer.get_watermark_offsets(confluent_kafka.TopicPartition("confluent", 0), timeout=DEADLINE_SECONDS)
        consumer.close()
    resource = confluent_kafka.admin.ConfigResource("topic", "confluent")
    wait_all(admin.describe_configs([resource, confluent_kafka.admin.ConfigResource("topic", "absent")]))
    entry = confluent_kafka.admin.ConfigEntry(
        "retention.ms", "7200000", incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET
    )
    wait_all(
        admin.incremental_alter_configs(
            [confluent_kafka.admin.ConfigResource("topic", "confluent", incremental_configs=[entry])]
        )
    )
    wait_all(
        admin.alter_configs(
            [confluent_kafka.admin.ConfigResource("topic", "confluent", set_config={"retention.ms": "1"})]
        )
    )
    wait_all(admin.create_partitions([confluent_kafka.admin.NewPartitions("confluent", 3)]))
    latest = confluent_kafka.admin.OffsetSpec.latest()
    wait_all(admin.list_offsets({confluent_kafka.TopicPartition("confluent", 0): latest}))
    wait_all(admin.delete_records([confluent_kafka.TopicPartition("confluent", 0, 1)]))
    admin.describe_cluster().result(DEADLINE_SECONDS)
    wait_all(admin.describe_topics(confluent_kafka.TopicCollection(["confluent"])))
    admin.list_consumer_groups().result(DEADLINE_SECONDS)
    wait_all(admin.describe_consumer_groups(["confluent-classic", "confluent-consumer"]))
    wait_all(admin.delete_topics(["confluent"]))


def wait_all(futures: dict[object, object]) -> None:
    """All are answered; an error is an answer too."""
    for future in futures.values():
        try:
            future.result(DEADLINE_SECONDS)  # type: ignore[attr-defined]
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError._TIMED_OUT:
                raise


def with_kafka_python(bootstrap: str) -> None:
    base = {"bootstrap_servers": bootstrap, "client_id": "kafka-python"}
    admin = kafka.KafkaAdminClient(**base)
    admin.create_topics([kafka.admin.NewTopic("kafka-python", 2, 1)])
    for options in ({}, {"enable_idempotence": False, "acks": 1, "compression_type": "gzip"}):
        producer = kafka.KafkaProducer(**base, **options)
        for number in range(3):
            producer.send("kafka-python", b"value", key=b"key", partition=number % 2, headers=[("h", b"1")])
        producer.flush(DEADLINE_SECONDS)
        producer.close()
    consumer = kafka.KafkaConsumer("kafka-python", group_id="kafka-python", auto_offset_reset="earliest", **base)
    while not consumer.poll(1000):
        pass
    consumer.commit()
    partition = kafka.TopicPartition("kafka-python", 0)
    consumer.offsets_for_times({partition: 1})
    consumer.end_offsets([partition])
    consumer.close()
    resource = kafka.admin.ConfigResource("TOPIC", "kafka-python")
    admin.describe_configs([resource])
    admin.alter_configs([kafka.admin.ConfigResource("TOPIC", "kafka-python", {"retention.ms": "3600000"})])
    admin.create_partitions({"kafka-python": kafka.admin.NewPartitions(3)})
    admin.describe_topics(["kafka-python"])
    admin.describe_cluster()
    admin.delete_records({partition: 1})
    admin.describe_log_dirs()
    admin.delete_topics(["kafka-python"])
    admin.close()


def with_aiokafka(bootstrap: str) -> None:
    asyncio.run(_with_aiokafka({"bootstrap_servers": bootstrap, "client_id": "aiokafka"}))


async def _with_aiokafka(base: dict[str, str]) -> None:
    admin = aiokafka.admin.AIOKafkaAdminClient(**base)
    await admin.start()
    await admin.create_topics([aiokafka.admin.NewTopic("aiokafka", 2, 1)])
    for options in ({}, {"enable_idempotence": True}, {"transactional_id": "aiokafka-tx"}):
        producer = aiokafka.AIOKafkaProducer(**base, **options)
        await producer.start()
        if "transactional_id" in options:
            await producer.begin_transaction()
        for number in range(3):
            await producer.send_and_wait("aiokafka", b"value", key=b"key", partition=number % 2, headers=[("h", b"1")])
        if "transactional_id" in options:
            await producer.commit_transaction()
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer("aiokafka", group_id="aiokafka", auto_offset_reset="earliest", **base)
    await consumer.start()
    await asyncio.wait_for(consumer.getone(), DEADLINE_SECONDS)
    await consumer.commit()
    partition = aiokafka.TopicPartition("aiokafka", 0)
    await consumer.offsets_for_times({partition: 1})
    await consumer.end_offsets([partition])
    await consumer.stop()
    resource_type = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
    await admin.describe_configs([aiokafka.admin.config_resource.ConfigResource(resource_type, "aiokafka")])
    await admin.alter_configs(
        [aiokafka.admin.config_resource.ConfigResource(resource_type, "aiokafka", {"retention.ms": "3600000"})]
    )
    await admin.create_partitions({"aiokafka": aiokafka.admin.NewPartitions(3)})
    await admin.describe_topics(["aiokafka"])
    await admin.list_consumer_groups()
    await admin.delete_topics(["aiokafka"])
    await admin.close()


def with_kcat(bootstrap: str) -> None:
    common = ["kcat", "-b", bootstrap, "-X", "client.id=kcat"]
    for options in ([], ["-z", "lz4"], ["-X", "enable.idempotence=true"]):
        subprocess.run([*common, "-P", "-t", "kcat", "-K:", *options], input=b"k:v\nk:w\n", check=True, timeout=60)
    subprocess.run([*common, "-L"], stdout=subprocess.DEVNULL, check=True, timeout=60)
    subprocess.run([*common, "-Q", "-t", "kcat:0:-1"], stdout=subprocess.DEVNULL, check=True, timeout=60)
    reading = ["-C", "-t", "kcat", "-o", "beginning", "-e", "-q"]
    subprocess.run([*common, *reading], stdout=subprocess.DEVNULL, check=True, timeout=60)
    subprocess.run([*common, "-e", "-q", "-G", "kcat", "kcat"], stdout=subprocess.DEVNULL, check=True, timeout=60)


def with_java(bootstrap: str) -> None:
    server = ["--bootstrap-server", bootstrap]
    tools = "org.apache.kafka.tools."
    on_topic = ["--topic", "java"]
    for name, arguments in (
        ("TopicCommand", ["--create", *on_topic, "--partitions", "2"]),
        ("ProducerPerformance", [*on_topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1",
                                 "--bootstrap-server", bootstrap]),
        ("ConsumerPerformance", [*on_topic, "--num-records", "20", "--timeout", "20000"]),
        ("TopicCommand", ["--describe", *on_topic]),
        ("TopicCommand", ["--alter", *on_topic, "--partitions", "3"]),
        ("GetOffsetShell", ["--topic", "java", "--time", "max-timestamp"]),
        ("LogDirsCommand", ["--describe", "--topic-list", "java"]),
        ("ClusterTool", ["cluster-id"]),
        ("ClusterTool", ["list-endpoints"]),
        ("TopicCommand", ["--delete", *on_topic]),
    ):  # fmt: skip
        done = run_tool(tools + name, [*arguments, *(server if bootstrap not in arguments else [])])
        print(f"  {name}: status {done.returncode}", done.stderr[-300:] if done.returncode else "")
    entity = ["--entity-type", "topics", "--entity-name", "kcat"]
    for arguments in (
        ["--alter", *entity, "--add-config", "retention.ms=3600000"],
        ["--describe", *entity],
        ["--describe", "--entity-type", "client-metrics"],
        ["--describe", "--entity-type", "groups"],
    ):
        done = run_tool("kafka.admin.ConfigCommand", [*server, *arguments])
        print(f"  ConfigCommand: status {done.returncode}")


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FRAMES
    path.parent.mkdir(exist_ok=True)
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory:
        node = KafkaNode(Path(directory) / "kafka")
        (port,) = free_ports(1)
        controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
        node.settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port},{controller}"
        proxy = Proxy(recorder, port, node.port)
        proxy.start()
        with node:
            for scenario in (with_kcat, with_confluent, with_kafka_python, with_aiokafka, with_java):
                print(scenario.__name__)
                try:
                    scenario(f"127.0.0.1:{port}")
                except Exception:  # a client that cannot do one thing still gave us the others
                    traceback.print_exc()
                recorder.write(path)
        proxy.stop()
    print(f"{sum(map(len, recorder.frames.values()))} frames, {path.stat().st_size} bytes in {path}")


if __name__ == "__main__":
    main()
