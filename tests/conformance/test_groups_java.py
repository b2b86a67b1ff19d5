"""Groups with Kafka's own tools: ConsumerGroupCommand, VerifiableConsumer, and the dump of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import oracle
import raw
from brokers import Broker
from clients import Confluent, Record
from consumers import ConsumerMember
from java_consumers import JavaConsumer
from members import Member, find_coordinator, subscription, wait_until
from penstock.broker.internal_topic import partition_for
from penstock.client.cluster import Cluster
from penstock.client.groups import Groups

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools."
COMMAND = TOOLS + "consumer.group.ConsumerGroupCommand"
NewMember = Callable[..., Member]
NewConsumer = Callable[..., JavaConsumer]
PROTOCOLS = ["classic", "consumer"]


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def run(broker: Broker, tool: str, *arguments: str, fails: bool = False) -> str:
    done = oracle.run_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments])
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.strip()]


# VerifiableConsumer: Kafka's own Java consumer.


@pytest.fixture
def consumer(broker: Broker, group: str, tmp_path: Path) -> Iterator[NewConsumer]:
    """Makes Java consumers of the test's group."""
    with ExitStack() as stack:

        def make(topic: str, protocol: str, *options: str) -> JavaConsumer:
            made = JavaConsumer(broker.bootstrap, topic, group, tmp_path, *options, protocol=protocol)
            return stack.enter_context(made)

        yield make


def produce(broker: Broker, topic: str, partitions: int, count: int) -> None:
    for partition in range(partitions):
        Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * count, partition=partition)


def are_split(consumers: Sequence[JavaConsumer], sizes: Sequence[int]) -> bool:
    """Whether together they own every partition once, and so many each."""
    whole = sorted(index for each in consumers for index in each.owned)
    return whole == list(range(sum(sizes))) and [len(each.owned) for each in consumers] == list(sizes)


def committed(connection: raw.Connection, group: str) -> dict[int, int]:
    (found,) = connection.call("OffsetFetch", 9, groups=[{"group_id": group, "topics": None}]).groups
    return {part.partition_index: part.committed_offset for topic in found.topics for part in topic.partitions}


CLIENTS = "org.apache.kafka.clients.consumer."
WAYS = {
    "range": ("classic", "--assignment-strategy", CLIENTS + "RangeAssignor"),
    "cooperative-sticky": ("classic", "--assignment-strategy", CLIENTS + "CooperativeStickyAssignor"),
    "consumer-uniform": ("consumer",),
    "consumer-range": ("consumer", "--group-remote-assignor", "range"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_java_consumers_share_the_partitions_come_and_go(
    consumer: NewConsumer,
    broker: Broker,
    connection: raw.Connection,
    group: str,
    new_topic: Callable[..., str],
    way: Sequence[str],
) -> None:
    topic = new_topic(partitions=4)
    one = consumer(topic, *way)
    one.wait_until(lambda: are_split([one], [4]))
    two = consumer(topic, *way)
    two.wait_until(lambda: are_split([one, two], [2, 2]))
    produce(broker, topic, 4, 5)
    two.wait_until(lambda: one.values_read + two.values_read == 20)
    both = {**one.offsets, **two.offsets}
    assert both == {index: list(range(5)) for index in range(4)}, "each message once, in order"
    two.wait_until(lambda: committed(connection, group) == dict.fromkeys(range(4), 5))
    assert "partitions_revoked" in one.names
    two.stop()
    one.wait_until(lambda: are_split([one], [4]))
    produce(broker, topic, 4, 5)
    one.wait_until(lambda: committed(connection, group) == dict.fromkeys(range(4), 10))
    assert one.values_read + two.values_read == 40, "nothing was read again"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_more_java_consumers_than_partitions_and_one_of_them_is_killed(
    consumer: NewConsumer, broker: Broker, group: str, topic: str, protocol: str
) -> None:
    """With `group.protocol=consumer` it is noticed after 45 seconds: neither broker lets a group have less."""
    one = consumer(topic, protocol)
    one.wait_until(lambda: one.owned == {0})
    two = consumer(topic, protocol)
    two.wait_until(lambda: member_count(broker, group) == 2 and len(one.owned) + len(two.owned) == 1)
    busy, idle = (one, two) if one.owned else (two, one)
    produce(broker, topic, 1, 5)
    busy.wait_until(lambda: busy.committed == {0: 5})
    busy.kill()
    idle.wait_until(lambda: idle.owned == {0})
    produce(broker, topic, 1, 5)
    idle.wait_until(lambda: idle.offsets == {0: [5, 6, 7, 8, 9]})


def member_count(broker: Broker, group: str) -> int:
    """Of a stable group of either kind."""
    with Cluster(broker.bootstrap) as cluster:
        found = Groups(cluster).find([group]).get(group)
    return len(found.members) if found is not None and found.state == "Stable" else 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_java_consumer_that_restarts_keeps_its_partitions(
    consumer: NewConsumer, new_topic: Callable[..., str], protocol: str
) -> None:
    topic = new_topic(partitions=2)
    # Java takes a while to start again.
    patience = ("--session-timeout", "60000") if protocol == "classic" else ()
    one = consumer(topic, protocol, "--group-instance-id", "one", *patience)
    one.wait_until(lambda: are_split([one], [2]))
    two = consumer(topic, protocol, "--group-instance-id", "two", *patience)
    two.wait_until(lambda: are_split([one, two], [1, 1]))
    before, seen = set(two.owned), one.names.count("partitions_revoked")
    two.stop()
    back = consumer(topic, protocol, "--group-instance-id", "two", *patience)
    back.wait_until(lambda: back.owned == before)
    assert one.names.count("partitions_revoked") == seen, "the other did not notice"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_java_consumers_commit_by_themselves_and_another_group_reads_everything_too(
    consumer: NewConsumer, broker: Broker, connection: raw.Connection, group: str, topic: str, protocol: str
) -> None:
    produce(broker, topic, 1, 20)
    one = consumer(topic, protocol, "--enable-autocommit", "--max-messages", "20")
    assert one.wait() == 0
    assert committed(connection, group) == {0: 20}
    other = f"{group}-other"
    find_coordinator(connection, other)
    two = consumer(topic, protocol, "--group-id", other, "--max-messages", "20")
    assert two.wait() == 0
    assert two.offsets == one.offsets == {0: list(range(20))}
    assert committed(connection, other) == {0: 20}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_java_consumer_begins_at_the_end_or_fails_as_its_reset_policy_says(
    consumer: NewConsumer, broker: Broker, topic: str, protocol: str
) -> None:
    produce(broker, topic, 1, 5)
    none = consumer(topic, protocol, "--reset-policy", "none")
    none.wait()
    assert none.values_read == 0
    latest = consumer(topic, protocol, "--reset-policy", "latest")
    latest.wait_until(lambda: latest.owned == {0})

    def has_read() -> bool:
        """It finds the end some time after it has its partition."""
        produce(broker, topic, 1, 1)
        return bool(latest.values_read)

    latest.wait_until(has_read)
    assert latest.offsets[0][0] >= 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_java_consumer_reads_several_topics_by_a_pattern(
    broker: Broker, group: str, new_topic: Callable[..., str], protocol: str
) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        produce(broker, topic, 1, 5)
    printed = run(
        broker, TOOLS + "consumer.ConsoleConsumer", "--include", "|".join(topics), "--group", group,
        "--from-beginning", "--max-messages", "10", "--command-property", f"group.protocol={protocol}",
        "--formatter-property", "print.offset=true", "--formatter-property", "print.value=true",
    )  # fmt: skip
    assert sorted(line for line in printed.splitlines() if "Offset:" in line) == sorted(
        2 * [f"Offset:{number}\tv" for number in range(5)]
    )


# ConsumerGroupCommand.


class Group:
    """A group of the test, whose only member has both partitions of the topic."""

    def __init__(self, bootstrap: str, name: str, topic: str, protocol: str) -> None:
        self.topic = topic
        self.classic = Member(bootstrap, name, session_timeout_ms=600_000) if protocol == "classic" else None
        self.modern = ConsumerMember(bootstrap, name, "a", [topic]) if protocol == "consumer" else None

    def join(self) -> None:
        if self.classic is not None:
            self.classic.join(protocols=[{"name": "range", "metadata": subscription(self.topic)}])
            self.classic.sync({self.classic.id: assignment(self.topic, 0, 1)})
        elif self.modern is not None:
            self.modern.join()
            wait_until(self.is_alive)

    def is_alive(self) -> bool:
        """A tool takes seconds, and the member's session goes on meanwhile."""
        if self.modern is None:
            return True
        return self.modern.confirm().error_code == 0 and self.modern.assigned == {self.topic: [0, 1]}

    @property
    def member_id(self) -> str:
        return "a" if self.classic is None else self.classic.id

    def commit(self, offset: int) -> None:
        if self.classic is not None:
            assert self.classic.commit({(self.topic, 0): offset}) == [0]
        elif self.modern is not None:
            assert self.modern.commit(self.topic, 0, offset) == 0

    def leave(self) -> None:
        if self.classic is not None:
            self.classic.leave()
        elif self.modern is not None:
            self.modern.leave()

    def close(self) -> None:
        for member in (self.classic, self.modern):
            if member is not None:
                member.close()


@pytest.fixture(params=["classic", "consumer"])
def active(
    request: pytest.FixtureRequest, broker: Broker, group: str, new_topic: Callable[..., str]
) -> Iterator[Group]:
    """A group with a member, which has committed 4 of the 10 messages of its first partition."""
    topic = new_topic(partitions=2)
    Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * 10)
    made = Group(broker.bootstrap, group, topic, request.param)
    made.join()
    made.commit(4)
    yield made
    made.close()


def offsets_shown(broker: Broker, group: str, topic: str) -> dict[str, list[str]]:
    printed = rows(run(broker, COMMAND, "--describe", "--group", group))
    return {row[2]: row[3:] for row in printed if row[1:2] == [topic]}


def test_the_command_lists_and_describes_a_group(active: Group, broker: Broker, group: str) -> None:
    is_classic = active.classic is not None
    assert [group, "Stable"] in [row[:2] for row in rows(run(broker, COMMAND, "--list", "--state"))]
    kinds = [row[:2] for row in rows(run(broker, COMMAND, "--list", "--type"))]
    assert [group, "Classic" if is_classic else "Consumer"] in kinds
    shown = offsets_shown(broker, group, active.topic)
    assert shown["0"][:4] == ["4", "10", "6", active.member_id], "current offset, log end, lag"
    assert shown["1"][:3] == ["-", "0", "-"]
    assert active.is_alive()
    members = rows(run(broker, COMMAND, "--describe", "--group", group, "--members", "--verbose"))
    member = next(row for row in members if row[:2] == [group, active.member_id])
    both = f"{active.topic}:0,1"
    assert member[4] == "2"
    if is_classic:
        assert member[5:] == ["-", both, "-", "-"]
    else:
        assert (member[5], member[6], member[8]) == (member[7], both, both), "epoch and assignment are the target's"
    assert active.is_alive()
    states = rows(run(broker, COMMAND, "--describe", "--group", group, "--state", "--verbose"))
    state = next(row for row in states if row[0] == group)
    epoch = member[5]
    assert state[3:] == ["range" if is_classic else "uniform", "Stable", epoch, epoch, "1"]


def test_the_command_resets_and_deletes_a_group_only_when_it_is_empty(
    active: Group, broker: Broker, group: str
) -> None:
    reset = ("--reset-offsets", "--group", group, "--topic", active.topic)
    assert "is Stable" in run(broker, COMMAND, *reset, "--to-earliest", "--execute")
    assert active.is_alive()
    assert "not empty" in run(broker, COMMAND, "--delete", "--group", group)
    active.leave()
    assert offsets_shown(broker, group, active.topic)["0"][:3] == ["4", "10", "6"]
    run(broker, COMMAND, *reset, "--to-offset", "7", "--dry-run")
    assert offsets_shown(broker, group, active.topic)["0"][0] == "4"
    for target, offset in ((("--to-offset", "7"), "7"), (("--shift-by", "-2"), "5"), (("--to-latest",), "10")):
        run(broker, COMMAND, *reset, *target, "--execute")
        assert offsets_shown(broker, group, active.topic)["0"][0] == offset
    run(broker, COMMAND, "--delete-offsets", "--group", group, "--topic", f"{active.topic}:0")
    assert "0" not in offsets_shown(broker, group, active.topic)
    assert "Deletion of requested consumer groups" in run(broker, COMMAND, "--delete", "--group", group)
    assert group not in run(broker, COMMAND, "--list").split()


def test_kafka_reads_what_a_group_wrote(broker: Broker, member: NewMember, topic: str) -> None:
    one = member("instance")
    one.join()
    one.sync({one.id: assignment(topic, 0)})
    one.commit({(topic, 0): 4})
    one.leave()
    one.call("DeleteGroups", 2, groups_names=[one.group])
    partition = partition_for(one.group, 50)
    log = Path(broker.log_dir) / f"__consumer_offsets-{partition}" / "00000000000000000000.log"
    done = oracle.run_tool(TOOLS + "DumpLogSegments", ["--offsets-decoder", "--print-data-log", "--files", str(log)])
    assert done.returncode == 0, done.stderr
    payloads = [line for line in done.stdout.splitlines() if one.group in line]
    assert "corrupt" not in done.stdout.lower()
    generation, offset, empty, *tombstones = [line for line in payloads if '"generation":0' not in line]
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in generation
    assert '"groupInstanceId":"instance"' in generation
    assert f'"topic":"{topic}","partition":0' in offset
    assert '"offset":4,"leaderEpoch":-1,"metadata":""' in offset
    assert '"generation":2' in empty
    assert len(tombstones) == 2
    assert all("payload: <DELETE>" in line or line.rstrip().endswith("payload: null") for line in tombstones), (
        tombstones
    )


def assignment(topic: str, *partitions: int) -> bytes:
    """A consumer's assignment, in version 0."""
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    named = len(topic).to_bytes(2, "big") + topic.encode() + len(partitions).to_bytes(4, "big") + numbers
    return b"\x00\x00" + b"\x00\x00\x00\x01" + named + b"\xff\xff\xff\xff"
