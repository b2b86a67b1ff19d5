"""Loading a configuration: where values come from, which wins, and the sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig, Source, default_data_dir
from penstock.errors import ConfigError
from penstock.log.config import LogConfig

COMBINED_KRAFT = """\
process.roles=broker,controller
node.id=3
controller.quorum.bootstrap.servers=localhost:9093
controller.quorum.voters=3@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=16
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/data/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

WITH_ZOOKEEPER = """\
broker.id=0
#listeners=PLAINTEXT://:9092
num.network.threads=3
log.dirs=/data/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def load(tmp_path: Path, text: str = "", environ: dict[str, str] | None = None, *overrides: str) -> BrokerConfig:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return BrokerConfig.load(path, environ or {}, overrides)


def problem(tmp_path: Path, text: str = "", environ: dict[str, str] | None = None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ, *overrides)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    config = BrokerConfig.load(None, {"HOME": "/home/ann"}, ())
    assert config.node_id == 1
    assert config.log_dirs == (Path("/home/ann/.local/share/penstock"),)
    assert config.num_partitions == 1
    assert config.default_replication_factor == 1
    assert config.durability == "os"
    assert config.rack is None
    assert config.warnings == ()
    assert config.not_implemented() == ()
    assert config.log_config({}) == LogConfig()


def test_the_data_directory_is_the_users_own() -> None:
    assert default_data_dir({"XDG_DATA_HOME": "/data", "HOME": "/home/ann"}) == Path("/data/penstock")
    assert default_data_dir({"XDG_DATA_HOME": "not/absolute", "HOME": "/h"}) == Path("/h/.local/share/penstock")


def test_the_command_line_beats_the_environment_and_that_the_file(tmp_path: Path) -> None:
    file, environ, override = "num.partitions=2", {"PENSTOCK_NUM_PARTITIONS": "3"}, "num.partitions=4"
    assert load(tmp_path, file).num_partitions == 2
    assert load(tmp_path, file, environ).num_partitions == 3
    assert load(tmp_path, file, environ, override).num_partitions == 4


def test_a_value_knows_where_it_comes_from(tmp_path: Path) -> None:
    config = load(tmp_path, "# first\nnum.partitions=2", {"PENSTOCK_LOG_ROLL_MS": "9"}, "log.segment.bytes=2097152")
    assert config.source("num.partitions") is Source.STATIC_BROKER_CONFIG
    assert config.source("log.index.interval.bytes") is Source.DEFAULT_CONFIG
    assert config.origin("num.partitions") == f"{tmp_path}/server.properties line 2"
    assert config.origin("log.roll.ms") == "environment variable PENSTOCK_LOG_ROLL_MS"
    assert config.origin("log.segment.bytes") == "command line"
    assert config.origin("log.dirs") is None


def test_values_have_their_types(tmp_path: Path) -> None:
    config = load(
        tmp_path, "log.cleanup.policy=compact, delete\nlog.preallocate=TRUE\nlog.cleaner.min.cleanable.ratio=.25"
    )
    assert config.get("log.cleanup.policy") == ("compact", "delete")
    assert config.get_bool("log.preallocate") is True
    assert config.get("log.cleaner.min.cleanable.ratio") == 0.25
    assert config.get_int("socket.request.max.bytes") == 104_857_600
    assert config.get_str("compression.type") == "producer"
    with pytest.raises(KeyError):
        config.get("no.such.setting")


def test_every_mistake_of_a_file_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = "# my broker\nlog.retention.ms=7d\nnum.partitions=2\nlog.preallocate=maybe\n"
    assert problem(tmp_path, text) == (
        "server.properties line 2: log.retention.ms must be a whole number of milliseconds, not '7d'. "
        "Write 604800000.\n"
        "server.properties line 4: log.preallocate must be true or false, not 'maybe'."
    )


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    assert problem(tmp_path, "", {"PENSTOCK_NUM_PARTITIONS": "0"}) == (
        "environment variable PENSTOCK_NUM_PARTITIONS: num.partitions must be at least 1, not '0'."
    )


def test_a_mistake_that_a_stronger_place_overrides_does_no_harm(tmp_path: Path) -> None:
    assert load(tmp_path, "num.partitions=none", {}, "num.partitions=5").num_partitions == 5


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("log.retension.ms=5", "--set log.retension.ms: there is no such setting. Did you mean log.retention.ms?"),
        (
            "retention.ms=5",
            "--set retention.ms: there is no such setting. It is a topic's setting; the broker's is log.retention.ms.",
        ),
        ("quite.something.else=5", "--set quite.something.else: there is no such setting."),
        ("num.partitions", "--set num.partitions has no value. Write --set num.partitions=VALUE."),
        ("leader.replication.throttled.rate=5", "--set leader.replication.throttled.rate: there is no such setting."),
    ],
)
def test_an_unknown_name_on_the_command_line_is_an_error(tmp_path: Path, override: str, sentence: str) -> None:
    assert problem(tmp_path, "", {}, override).startswith(sentence)


def test_an_unknown_name_in_the_file_is_a_warning(tmp_path: Path) -> None:
    config = load(tmp_path, "my.plugin.setting=5\nlog.retension.ms=5\n")
    first, second = (warning.replace(f"{tmp_path}/", "") for warning in config.warnings)
    assert first == "server.properties line 1: my.plugin.setting is no setting that Penstock knows, and is ignored."
    assert second.startswith("server.properties line 2: log.retension.ms is no setting that Penstock knows")
    assert second.endswith("Did you mean log.retention.ms?")


def test_an_unknown_variable_is_a_warning_and_others_variables_are_nothing(tmp_path: Path) -> None:
    environ = {
        "PENSTOCK_NUM_PARTITION": "5",
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_BOOTSTRAP": "x",
        "PATH": "/bin",
    }
    first, second = load(tmp_path, "", environ).warnings
    assert first.startswith("The environment variable PENSTOCK_NUM_PARTITION is no setting and is ignored.")
    assert first.endswith("Did you mean PENSTOCK_NUM_PARTITIONS?")
    assert second == "The environment variable PENSTOCK_SERVICE_HOST is no setting and is ignored."


def test_penstocks_own_settings_have_the_word_once_in_the_environment(tmp_path: Path) -> None:
    assert load(tmp_path, "", {"PENSTOCK_DURABILITY": "fsync"}).durability == "fsync"


# Settings of the same meaning.


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.ms=-1", -1),
        ("log.retention.ms=-5", -1),
        ("log.retention.hours=-1", -1),
    ],
)
def test_retention_is_the_most_exact_that_is_given(tmp_path: Path, text: str, retention_ms: int) -> None:
    assert load(tmp_path, text).log_config({}).retention_ms == retention_ms


def test_a_stronger_place_wins_even_with_the_less_exact_word(tmp_path: Path) -> None:
    config = load(tmp_path, "log.retention.ms=5\nlog.dirs=/a,/b", {"PENSTOCK_LOG_DIR": "/c"}, "log.retention.hours=1")
    assert config.log_config({}).retention_ms == 3_600_000
    assert config.log_dirs == (Path("/c"),)


def test_rolling_and_flushing_have_their_synonyms(tmp_path: Path) -> None:
    log = load(tmp_path, "log.roll.hours=1\nlog.roll.jitter.hours=2\nlog.flush.scheduler.interval.ms=30").log_config({})
    assert (log.segment_ms, log.segment_jitter_ms, log.flush_ms) == (3_600_000, 7_200_000, 30)
    log = load(tmp_path, "log.roll.hours=1\nlog.roll.ms=7\nlog.flush.scheduler.interval.ms=30\nlog.flush.interval.ms=8")
    assert (log.log_config({}).segment_ms, log.log_config({}).flush_ms) == (7, 8)


def test_log_dirs_stands_before_log_dir(tmp_path: Path) -> None:
    assert load(tmp_path, "log.dir=/a").log_dirs == (Path("/a"),)
    assert load(tmp_path, "log.dir=/a\nlog.dirs=/b,/c").log_dirs == (Path("/b"), Path("/c"))


def test_broker_id_is_the_old_name_of_node_id(tmp_path: Path) -> None:
    for text in ("broker.id=7", "node.id=7", "broker.id=7\nnode.id=7", "broker.id=-1\nnode.id=7"):
        config = load(tmp_path, text)
        assert (config.node_id, config.get("broker.id")) == (7, 7), text
    assert load(tmp_path, "broker.id=-1").node_id == 1
    assert load(tmp_path, "broker.id=7", {}, "node.id=8").node_id == 8
    assert problem(tmp_path, "broker.id=7\nnode.id=8") == (
        "server.properties line 1: broker.id is 7, but node.id is 8. Write node.id only."
    )
    assert "must be at least 0" in problem(tmp_path, "broker.id=-3")


# Settings that do not go together.


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("log.retention.ms=0", "line 1: log.retention.ms must be at least 1, or -1 to keep records for ever, not 0."),
        ("log.retention.hours=0", "line 1: log.retention.hours must be at least 1, or -1"),
        ("log.roll.ms=0", "line 1: log.roll.ms must be at least 1, not 0."),
        ("log.roll.jitter.ms=-1", "line 1: log.roll.jitter.ms must be at least 0, not -1."),
        ("replica.fetch.wait.max.ms=40000", "is 40000, above replica.lag.time.max.ms, which is 30000."),
        ("group.min.session.timeout.ms=1800001", "above group.max.session.timeout.ms"),
        ("log.cleaner.threads=200", "log.cleaner.dedupe.buffer.size must be above 209715200 bytes for 200"),
        ("queued.max.request.bytes=5", "below socket.request.max.bytes"),
        ("log.dirs=/a\ncordoned.log.dirs=/b", "line 2: cordoned.log.dirs has /b, which is not one of log.dirs."),
        ("process.roles=controller", "process.roles has no broker, and Penstock is nothing else."),
        ("authorizer.class.name=some.Authorizer", "everybody could do everything."),
    ],
)
def test_settings_that_do_not_go_together_stop_the_start(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in problem(tmp_path, text)


# Files of Apache Kafka.


def test_a_combined_kraft_file_of_apache_kafka_works_as_it_is(tmp_path: Path) -> None:
    config = load(tmp_path, COMBINED_KRAFT)
    assert config.node_id == 3
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.log_dirs == (Path("/data/kraft-combined-logs"),)
    assert len(config.warnings) == 1
    assert "CONTROLLER" in config.warnings[0]
    assert config.without_meaning() == {
        "metadata is in SQLite or ZooKeeper, not in a quorum of controllers": (
            "controller.listener.names",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
            "process.roles",
        ),
        "one event loop serves every connection": ("num.io.threads",),
    }


def test_what_is_not_implemented_is_named_unless_it_is_the_default_anyway(tmp_path: Path) -> None:
    config = load(tmp_path, "quota.window.num=12\nquota.window.size.seconds=1\nnum.partitions=3")
    assert config.not_implemented() == ("quota.window.num",)


def test_a_listeners_own_setting_is_named_in_full(tmp_path: Path) -> None:
    config = load(tmp_path, "listener.name.plaintext.ssl.keystore.location=/x")
    assert config.warnings == ()
    assert config.not_implemented() == ("listener.name.plaintext.ssl.keystore.location",)


def test_a_file_from_the_days_of_zookeeper_works_with_warnings(tmp_path: Path) -> None:
    config = load(tmp_path, WITH_ZOOKEEPER)
    assert config.node_id == 0
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert [warning.split(": ")[1].split(" ")[0] for warning in config.warnings] == [
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
    ]


# Dynamic settings and topics.


def test_what_is_set_at_runtime_for_this_broker_beats_what_is_set_for_all(tmp_path: Path) -> None:
    config = load(tmp_path, "log.retention.hours=100")
    assert config.with_dynamic({"log.retention.ms": "70"}, {}).log_config({}).retention_ms == 70
    changed = config.with_dynamic({"log.retention.ms": "70", "background.threads": "7"}, {"log.retention.ms": "60"})
    assert changed.log_config({}).retention_ms == 60
    assert changed.get("background.threads") == 7
    assert changed.source("log.retention.ms") is Source.DYNAMIC_BROKER_CONFIG
    assert changed.source("background.threads") is Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert changed.with_dynamic({}, {}).log_config({}).retention_ms == 360_000_000
    assert config.get("background.threads") == 10


def test_a_bad_value_in_the_metadata_is_passed_over(tmp_path: Path) -> None:
    config = load(tmp_path, "background.threads=5").with_dynamic(
        {"background.threads": "7"}, {"background.threads": "x"}
    )
    assert config.get("background.threads") == 7


def test_a_topics_own_settings_stand_before_the_brokers(tmp_path: Path) -> None:
    config = load(tmp_path, "log.segment.bytes=2097152\nlog.cleanup.policy=compact\nproducer.id.expiration.ms=99")
    log = config.log_config({"retention.ms": " 5 ", "cleanup.policy": "delete,compact", "preallocate": "true"})
    assert log.segment_bytes == 2_097_152
    assert log.retention_ms == 5
    assert log.cleanup_policy == {"delete", "compact"}
    assert log.preallocate is True
    assert log.producer_id_expiration_ms == 99
    assert log.compacts
    assert log.deletes


def test_a_small_segment_can_be_asked_for_in_tests(tmp_path: Path) -> None:
    assert load(tmp_path).log_config({"internal.segment.bytes": "500"}).segment_bytes == 500


def test_limits_of_single_addresses_are_at_hand(tmp_path: Path) -> None:
    config = load(tmp_path, "max.connections.per.ip.overrides=127.0.0.1:200")
    assert config.max_connections_per_ip == {"127.0.0.1": 200}


def test_compaction_that_does_not_happen_yet_is_said() -> None:
    config = BrokerConfig.load(None, {}, ["log.cleanup.policy=compact,delete"])
    assert any("no compaction yet" in warning for warning in config.warnings)
    assert not any("compaction" in warning for warning in BrokerConfig.load(None, {}).warnings)
