"""Fixtures for tests that need a running broker, or Spark.

`broker` is Penstock and then Apache Kafka: a scenario that takes it runs once on each, and one that Kafka does not pass
is wrong. Both live for the whole session, so each test uses topics of its own (`new_topic`). Penstock runs once per
pytest process. Kafka runs once per session, however many pytest-xdist workers share it; without Java and Maven its half
is skipped with the reason. `spark` is one session in one pytest process.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import oracle
import raw
from brokers import SOURCE, Broker, PenstockProcess
from changes import check_created
from clients import DRIVERS, Driver
from members import find_every_coordinator
from ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_DIRECTORY = "PENSTOCK_TEST_SESSION"
SESSION_PREFIX = "penstock-session-"
SPARK_TESTS = re.compile(r"tests/(spark/|mission/test_m3[3-8]_)")

# Spark's JVMs live for a minute here: what compiles hot code twice costs more than it gives.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

hypothesis.settings.register_profile(
    "penstock", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)  # both go by the clock, which says nothing on a busy machine
hypothesis.settings.load_profile("penstock")


@dataclass(frozen=True, slots=True)
class RunningKafka:
    """The Kafka node of this session, maybe started by another pytest process."""

    bootstrap: str
    directory: str
    pid: int
    name: str = "kafka"

    @property
    def log_dir(self) -> Path:
        return Path(self.directory) / "data"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """What needs Spark goes to one worker, one after the other, so that there is one JVM; the rest as it comes.

    pytest-xdist has groups for that, but version 3.8 loses them with the pytest that is current.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if SPARK_TESTS.match(nodeid) else nodeid

    return OneSpark(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """The process that begins the session makes its directory, and sweeps away those of sessions that were killed."""
    if SESSION_DIRECTORY in os.environ:
        return
    for left in Path(tempfile.gettempdir()).glob(SESSION_PREFIX + "*"):
        if not is_running(int(left.name.removeprefix(SESSION_PREFIX).partition("-")[0])):
            end_session(left)
    os.environ[SESSION_DIRECTORY] = tempfile.mkdtemp(prefix=f"{SESSION_PREFIX}{os.getpid()}-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The process that began the session ends what the session started."""
    if not hasattr(config, "workerinput"):
        end_session(Path(os.environ.pop(SESSION_DIRECTORY)))


def end_session(directory: Path) -> None:
    started = directory / "kafka.json"
    if started.exists():
        node = RunningKafka(**json.loads(started.read_text()))
        if is_running(node.pid) and node.directory in Path(f"/proc/{node.pid}/cmdline").read_text():
            os.kill(node.pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="session")
def kafka() -> RunningKafka:
    """Apache Kafka, started by the first test that asks for it."""
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    session = Path(os.environ[SESSION_DIRECTORY])
    started = session / "kafka.json"
    with (session / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not started.exists():
            node = oracle.KafkaNode(session / "kafka")
            node.start()
            find_every_coordinator(node.bootstrap)
            started.write_text(json.dumps(asdict(RunningKafka(node.bootstrap, str(node.directory), node.pid))))
    return RunningKafka(**json.loads(started.read_text()))


@pytest.fixture(scope="session")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockProcess]:
    """One Penstock broker with default settings."""
    with PenstockProcess(tmp_path_factory.mktemp("penstock")) as process:
        yield process


@pytest.fixture(scope="session", params=["penstock", pytest.param("kafka", marks=pytest.mark.oracle)])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session in the process, since a JVM starts slowly: two cores, a failed task is tried again, with Connect."""
    from penstock.spark.java import spark_session

    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = path  # for the Python processes that Spark starts
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(free_ports(1)[0]),
    }
    session = spark_session("penstock-tests", master="local[2,4]", settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def client(request: pytest.FixtureRequest) -> Driver:
    driver: Driver = request.param
    return driver


@pytest.fixture
def connection(broker: Broker) -> Iterator[raw.Connection]:
    """A raw connection to the broker."""
    with raw.Connection(broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """The name of a topic that does not exist."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_topic(broker: Broker) -> Callable[..., str]:
    """Creates a topic of its own for the test: `new_topic(partitions=3, max_message_bytes="2000")`."""

    def create(partitions: int = 1, **configs: str) -> str:
        created = f"t-{uuid.uuid4().hex[:12]}"
        with raw.Connection(broker.bootstrap) as opened:
            raw.create_topic(opened, created, partitions, **configs)
            check_created(broker, opened, created, partitions)
        return created

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of one partition."""
    return new_topic()
