"""What a task of the sink writes, without Spark: run again, cut off, fenced, on Penstock and on Apache Kafka."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import penstock
from brokers import Broker, PenstockProcess
from delaying_proxy import END_TXN, DelayingProxy, Fate, lose_first_answer
from members import wait_until
from penstock.client.admin import Admin
from penstock.client.arrow.writer import ArrowWriter
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.offsets import LATEST, READ_COMMITTED, list_offsets
from penstock.client.transactional import CommitUnknownError, ProducerFencedError, TransactionalSession
from penstock.errors import KafkaError
from penstock.spark.sink_batch import finish_batch
from penstock.spark.sink_marker import Marker, read_marker
from penstock.spark.sink_options import SinkOptions, parse_sink_options
from penstock.spark.sink_task import Outcome, ReplayError, Unit, connect, write_once, write_plainly
from penstock.types import TopicPartition

NewTopic = Callable[..., str]


@pytest.fixture
def sink_id() -> str:
    return f"sink-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def penstock_process(request: pytest.FixtureRequest) -> PenstockProcess:
    """The broker alone: its fixture has the package's name."""
    found: PenstockProcess = request.getfixturevalue("penstock")
    return found


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    return new_topic(partitions=2)


@pytest.fixture
def options(broker: Broker, topic: str) -> SinkOptions:
    return sink_options(broker.bootstrap, topic=topic)


@pytest.fixture
def cluster(options: SinkOptions) -> Iterator[Cluster]:
    with connect(options) as opened:
        yield opened


def test_a_task_writes_its_rows_and_its_marker(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    unit = Unit(sink_id, 7, 3)
    assert write_once(cluster, options, unit, rows("a", "b", "c")) == Outcome(3, topic)
    assert values(broker, topic) == Counter("abc")
    assert read_marker(cluster, f"{sink_id}-3") == Marker(8, {"rows": 3})


def test_a_task_that_is_run_again_writes_nothing_but_reads_its_rows_to_the_end(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    unit = Unit(sink_id, 0, 0)
    write_once(cluster, options, unit, rows("a", "b"))
    again = rows("a", "b")
    assert write_once(cluster, options, unit, again) == Outcome(2, was_done=True)
    assert next(again, None) is None
    assert values(broker, topic) == Counter("ab")


def test_the_next_batch_of_a_task_is_written(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    for batch_id in range(3):
        write_once(cluster, options, Unit(sink_id, batch_id, 0), rows(str(batch_id)))
        write_once(cluster, options, Unit(sink_id, batch_id, 0), rows(str(batch_id)))
    assert values(broker, topic) == Counter("012")


def test_a_task_without_rows_leaves_nothing(cluster: Cluster, options: SinkOptions, sink_id: str) -> None:
    assert write_once(cluster, options, Unit(sink_id, 0, 0), rows()) == Outcome()
    assert read_marker(cluster, f"{sink_id}-0") == Marker(0, {})


def test_what_a_task_left_open_when_it_died_is_aborted_by_its_next_attempt(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    unit = Unit(sink_id, 0, 0)
    died = TransactionalSession(cluster, unit.name).begin()
    half = ArrowWriter(cluster, topic, transaction=died)
    half.write(pa.table({"value": ["a"]}))
    half.flush()
    write_once(cluster, options, unit, rows("a", "b"))
    assert values(broker, topic) == Counter("ab")


def test_a_zombie_that_was_overtaken_cannot_commit(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    unit = Unit(sink_id, 0, 0)

    def slow_rows() -> Iterator[pa.RecordBatch]:
        yield from rows("a")
        with connect(options) as other:  # a speculative twin begins and ends meanwhile
            write_once(other, options, unit, rows("a", "b"))
        yield from rows("b")

    with pytest.raises(ProducerFencedError, match="Nothing of it is committed"):
        write_once(cluster, options, unit, slow_rows())
    assert values(broker, topic) == Counter("ab")


def test_rows_of_a_failed_task_are_not_read(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    def failing_rows() -> Iterator[pa.RecordBatch]:
        yield from rows("a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_once(cluster, options, Unit(sink_id, 0, 0), failing_rows())
    assert values(broker, topic) == Counter()
    assert read_marker(cluster, f"{sink_id}-0") == Marker(0, {})


def test_rows_go_to_the_topics_that_a_column_names_and_the_marker_with_them(
    broker: Broker, new_topic: NewTopic, sink_id: str
) -> None:
    one, other = new_topic(), new_topic()
    options = sink_options(broker.bootstrap)
    named = [pa.record_batch({"value": ["a", "b", "c"], "topic": [one, other, one]})]
    with connect(options) as cluster:
        for _ in range(2):
            write_once(cluster, options, Unit(sink_id, 0, 0), iter(named))
    assert (values(broker, one), values(broker, other)) == (Counter("ac"), Counter("b"))


# A batch, and its tasks


def test_a_batch_that_was_finished_is_not_written_again_however_it_is_divided(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    write_once(cluster, options, Unit(sink_id, 0, 0), rows("a", "b"))
    write_once(cluster, options, Unit(sink_id, 0, 1), rows("c"))
    finish_batch(cluster, sink_id, 0, 2, topic)
    for task, value in enumerate("abc"):
        assert write_once(cluster, options, Unit(sink_id, 0, task), rows(value)).was_done
    finish_batch(cluster, sink_id, 0, 3, topic)
    assert values(broker, topic) == Counter("abc")


def test_a_batch_that_was_cut_in_the_middle_is_written_to_its_end(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    write_once(cluster, options, Unit(sink_id, 0, 1), rows("c"))
    write_once(cluster, options, Unit(sink_id, 0, 0), rows("a", "b"))
    write_once(cluster, options, Unit(sink_id, 0, 1), rows("c"))
    finish_batch(cluster, sink_id, 0, 2, topic)
    assert values(broker, topic) == Counter("abc")


def test_a_task_whose_rows_are_others_than_before_is_an_error_and_writes_nothing(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    write_once(cluster, options, Unit(sink_id, 0, 0), rows("a", "b"))
    with pytest.raises(ReplayError, match=r"had written 2 rows.*has 3.*as many partitions as before"):
        write_once(cluster, options, Unit(sink_id, 0, 0), rows("a", "b", "c"))
    assert values(broker, topic) == Counter("ab")


def test_a_checkpoint_that_is_older_than_the_sink_is_an_error(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    for batch_id in range(3):
        write_once(cluster, options, Unit(sink_id, batch_id, 0), rows(str(batch_id)))
    with pytest.raises(ReplayError, match=r"written batch 2.*runs batch 1.*checkpoint is older"):
        write_once(cluster, options, Unit(sink_id, 1, 0), rows("1", "2"))
    assert values(broker, topic) == Counter("012")


def test_a_batch_that_lost_a_task_which_had_written_is_an_error(
    cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    for task in range(3):
        write_once(cluster, options, Unit(sink_id, 0, task), rows("x"))
    finish_batch(cluster, sink_id, 0, 3, topic)
    write_once(cluster, options, Unit(sink_id, 1, 2), rows("cut off here"))
    write_once(cluster, options, Unit(sink_id, 1, 0), rows("all", "of", "it"))
    with pytest.raises(ReplayError, match=f"1 tasks instead of 3: what {sink_id}-2 had written is in the topic twice"):
        finish_batch(cluster, sink_id, 1, 1, topic)


def test_fewer_tasks_are_fine_when_the_batch_was_not_cut(
    cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    for task in range(3):
        write_once(cluster, options, Unit(sink_id, 0, task), rows("x"))
    finish_batch(cluster, sink_id, 0, 3, topic)
    write_once(cluster, options, Unit(sink_id, 1, 0), rows("x"))
    finish_batch(cluster, sink_id, 1, 1, topic)
    assert read_marker(cluster, sink_id) == Marker(2, {"tasks": 1})


# Bad input, and a bad network


def test_an_unknown_topic_is_an_error_at_once(broker: Broker, name: str, sink_id: str) -> None:
    options = sink_options(broker.bootstrap, topic=name)
    with connect(options) as cluster:
        with pytest.raises(UnknownTopicError, match="penstock topic create"):
            write_once(cluster, options, Unit(sink_id, 0, 0), rows("a"))
        with pytest.raises(UnknownTopicError):
            write_plainly(cluster, options, rows("a"))


def test_a_message_that_is_too_large_is_a_sentence_and_its_transaction_is_aborted(
    broker: Broker, new_topic: NewTopic, sink_id: str
) -> None:
    topic = new_topic(max_message_bytes="2000")
    options = sink_options(broker.bootstrap, topic=topic)
    with connect(options) as cluster, pytest.raises(KafkaError, match=r"max\.message\.bytes"):
        write_once(cluster, options, Unit(sink_id, 0, 0), rows("small", "x" * 5000))
    assert values(broker, topic) == Counter()


def test_a_partition_that_does_not_exist_is_a_sentence_and_nothing_is_written(
    broker: Broker, cluster: Cluster, options: SinkOptions, topic: str, sink_id: str
) -> None:
    found = pa.record_batch({"value": ["a", "b"], "partition": pa.array([0, 7], pa.int32())})
    with pytest.raises(KafkaError, match=r"has 7, but topic .* has 2 partitions"):
        write_once(cluster, options, Unit(sink_id, 0, 0), iter([found]))
    assert values(broker, topic) == Counter()


def test_a_commit_whose_answer_was_lost_is_looked_up_by_its_marker(
    penstock_process: PenstockProcess, sink_id: str
) -> None:
    with DelayingProxy(penstock_process.bootstrap) as proxy:
        options = sink_options(proxy.bootstrap, topic=create(penstock_process, 1))

        def take_id() -> None:
            with Cluster(penstock_process.bootstrap) as other:
                TransactionalSession(other, f"{sink_id}-0").take_id()

        lose_first_answer(proxy, END_TXN, before_again=take_id)
        with connect(options) as cluster:
            assert write_once(cluster, options, Unit(sink_id, 0, 0), rows("a")).was_done
    assert options.topic is not None
    assert values(penstock_process, options.topic) == Counter("a")


def test_a_commit_that_never_arrived_is_an_error_and_the_next_attempt_writes(
    penstock_process: PenstockProcess, sink_id: str
) -> None:
    with DelayingProxy(penstock_process.bootstrap) as proxy:
        options = sink_options(
            proxy.bootstrap, topic=create(penstock_process, 1), **{"kafka.delivery.timeout.ms": "2000"}
        )
        proxy.fate = lambda request: Fate.LOSE if request.api_key == END_TXN else Fate.PASS
        with connect(options) as cluster:
            with pytest.raises(CommitUnknownError):
                write_once(cluster, options, Unit(sink_id, 0, 0), rows("a"))
            proxy.fate = lambda _: Fate.PASS
            write_once(cluster, options, Unit(sink_id, 0, 0), rows("a"))
        assert options.topic is not None
        assert values(penstock_process, options.topic) == Counter("a")


def test_a_broker_that_is_down_when_a_task_begins_is_waited_for(
    tmp_path_factory: pytest.TempPathFactory, sink_id: str
) -> None:
    broker = PenstockProcess(tmp_path_factory.mktemp("down"))
    with broker:
        topic = create(broker, 1)
        broker.stop()
        starting = threading.Timer(0.5, broker.start)
        starting.start()
        options = sink_options(broker.bootstrap, topic=topic)
        with connect(options) as cluster:
            write_once(cluster, options, Unit(sink_id, 0, 0), rows("a"))
        starting.join()
        assert values(broker, topic) == Counter("a")


# What the tests do beside


def sink_options(bootstrap: str, **given: str) -> SinkOptions:
    return parse_sink_options({"bootstrap": bootstrap, **given}, exactly_once_by_default=True)


def rows(*found: str) -> Iterator[pa.RecordBatch]:
    """A batch for each, as Spark may cut them."""
    return iter([pa.record_batch({"value": [value]}) for value in found])


def values(broker: Broker, topic: str) -> Counter[str]:
    """What a reader of committed data finds, and how often, when the markers of what has ended are written."""
    with Cluster(broker.bootstrap) as cluster:
        partitions = [TopicPartition(topic, each.partition) for each in cluster.topic(topic).partitions]
        latest = dict.fromkeys(partitions, LATEST)
        wait_until(
            lambda: list_offsets(cluster, latest) == list_offsets(cluster, latest, isolation_level=READ_COMMITTED)
        )
    table = penstock.read(topic, bootstrap=broker.bootstrap).read_all()
    return Counter(bytes(value).decode() for value in table.column("value").to_pylist())


def create(broker: PenstockProcess, partitions: int) -> str:
    created = f"t-{uuid.uuid4().hex[:12]}"
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).create_topic(created, partitions=partitions)
    return created
