"""The table of settings: the same names, types and defaults as Apache Kafka 4.3, and a sentence for each."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from penstock.broker.settings import BROKER, GROUP, TOPIC
from penstock.broker.settings.checks import host_counts
from penstock.broker.settings.environment import VARIABLES, variable_of
from penstock.broker.settings.setting import DOUBLE, INT, LIST, LONG, PASSWORD, Setting, java_double, shown
from penstock.broker.settings.units import Unit, in_unit, to_ms, unit_of

KAFKA = Path(__file__).resolve().parents[2].parent / "shared" / "kafka-protocol" / "settings-4.3.0.json"
TABLES = {"broker": BROKER, "topic": TOPIC, "group": GROUP}
NOT_A_DEFAULT = "(set by the test node)"

needs_kafka = pytest.mark.skipif(not KAFKA.exists(), reason="Kafka's list of settings is not beside the repository")


def listed(kind: str) -> dict[str, Setting]:
    """The rows that Kafka would list: not its hidden ones, not Penstock's own."""
    return {
        name: row
        for name, row in TABLES[kind].items()
        if not (row.internal or row.dynamic_only or name.startswith("penstock."))
    }


@needs_kafka
@pytest.mark.parametrize("kind", TABLES)
def test_the_table_has_the_settings_of_kafka_and_no_others(kind: str) -> None:
    assert set(listed(kind)) == set(json.loads(KAFKA.read_text())[kind])


@needs_kafka
@pytest.mark.parametrize("kind", TABLES)
def test_types_and_runtime_changes_are_those_of_kafka(kind: str) -> None:
    for name, theirs in json.loads(KAFKA.read_text())[kind].items():
        ours = TABLES[kind][name]
        assert ours.type.name == theirs["type"], name
        assert ours.read_only == theirs["read_only"], name
        assert ours.sensitive == theirs.get("sensitive", False), name


@needs_kafka
@pytest.mark.parametrize("kind", TABLES)
def test_defaults_are_those_of_kafka_unless_the_row_says_why_not(kind: str) -> None:
    for name, theirs in json.loads(KAFKA.read_text())[kind].items():
        ours = TABLES[kind][name]
        if theirs["default"] != NOT_A_DEFAULT and not ours.differs:
            assert shown(ours.default) == theirs["default"], name


def test_only_these_defaults_differ_from_those_of_kafka() -> None:
    assert {name for name, row in BROKER.items() if row.differs} == {
        "controller.listener.names",
        "group.consumer.assignment.interval.ms",
        "group.initial.rebalance.delay.ms",
        "listeners",
        "log.dir",
        "node.id",
        "process.roles",
    }


def every_row() -> list[Setting]:
    return [row for table in TABLES.values() for row in table.values()]


def test_every_setting_has_one_plain_sentence() -> None:
    for row in every_row():
        assert row.doc.endswith("."), row.name
        assert row.doc[0].isupper(), row.name
        assert "\n" not in row.doc, row.name


def test_the_sentence_of_a_number_says_its_unit() -> None:
    words = {
        Unit.MILLISECONDS: ("millisecond",),
        Unit.SECONDS: ("second",),
        Unit.MINUTES: ("minute",),
        Unit.HOURS: ("hour",),
        Unit.BYTES: ("byte", "size"),
    }
    for row in every_row():
        if row.unit is not None:
            assert any(word in row.doc for word in words[row.unit]), row.name


def test_every_default_passes_its_own_check() -> None:
    for row in every_row():
        text = shown(row.default)
        if text is not None:
            assert row.parse(text) == row.default, row.name


def test_synonyms_of_topics_and_groups_are_settings_of_the_broker() -> None:
    for row in (*TOPIC.values(), *GROUP.values()):
        for name in row.synonyms:
            assert BROKER[name].name == name


def test_every_setting_has_an_environment_variable_of_its_own() -> None:
    assert len(VARIABLES) == len([row for row in BROKER.values() if not row.dynamic_only])
    assert variable_of("log.retention.ms") == "PENSTOCK_LOG_RETENTION_MS"
    assert variable_of("penstock.durability") == "PENSTOCK_DURABILITY"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log.segment.bytes", " 2097152 ", 2_097_152),
        ("log.preallocate", "TRUE", True),
        ("log.preallocate", "false", False),
        ("log.cleaner.min.cleanable.ratio", "1e-2", 0.01),
        ("log.cleanup.policy", "delete, compact", ("delete", "compact")),
        ("log.cleanup.policy", "delete,delete", ("delete",)),
        ("log.cleanup.policy", "", ()),
        ("compression.gzip.level", "-1", -1),
        ("listeners", "A://:1 , B://:2", ("A://:1", "B://:2")),
        ("group.consumer.migration.policy", "UPGRADE", "UPGRADE"),
        ("max.connections.per.ip.overrides", "127.0.0.1:20,[::1]:5", "127.0.0.1:20,[::1]:5"),
    ],
)
def test_text_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    assert BROKER[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "log.retention.ms",
            "7d",
            "log.retention.ms must be a whole number of milliseconds, not '7d'. Write 604800000.",
        ),
        (
            "log.segment.bytes",
            "1 GiB",
            "log.segment.bytes must be a whole number of bytes, not '1 GiB'. Write 1073741824.",
        ),
        ("log.retention.hours", "2d", "log.retention.hours must be a whole number of hours, not '2d'. Write 48."),
        ("num.partitions", "", "num.partitions must be a whole number, not ''."),
        ("num.partitions", "1_000", "num.partitions must be a whole number, not '1_000'."),
        ("num.partitions", "٣", "num.partitions must be a whole number, not '٣'."),
        ("num.partitions", "0", "num.partitions must be at least 1, not '0'."),
        ("log.segment.bytes", "1000", "log.segment.bytes must be at least 1048576, not '1000'."),
        (
            "log.segment.bytes",
            "99999999999",
            "log.segment.bytes must be between -2147483648 and 2147483647, not 99999999999.",
        ),
        ("log.preallocate", "yes", "log.preallocate must be true or false, not 'yes'."),
        ("log.cleanup.policy", "foo", "log.cleanup.policy must be made of compact or delete, not 'foo'."),
        (
            "log.cleanup.policy",
            "delete,,compact",
            "log.cleanup.policy has an empty member: 'delete,,compact'. Write one comma between two members.",
        ),
        (
            "log.message.timestamp.type",
            "LogAppendtime",
            "log.message.timestamp.type must be CreateTime or LogAppendTime, not 'LogAppendtime'.",
        ),
        ("compression.gzip.level", "0", "compression.gzip.level must be between 1 and 9, or -1, not '0'."),
        ("log.cleaner.min.cleanable.ratio", "x", "log.cleaner.min.cleanable.ratio must be a number, not 'x'."),
        ("log.cleaner.min.cleanable.ratio", "nan", "log.cleaner.min.cleanable.ratio must be a number, not 'nan'."),
        (
            "max.connections.per.ip.overrides",
            "1.2.3.4:x",
            "max.connections.per.ip.overrides must be HOST:COUNT pairs, such as 127.0.0.1:100, not '1.2.3.4:x'.",
        ),
        ("penstock.durability", "disk", "penstock.durability must be os or interval or fsync, not 'disk'."),
    ],
)
def test_a_wrong_value_gets_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        BROKER[name].parse(text)
    assert str(caught.value) == sentence


def test_throttled_replicas_are_pairs_or_a_star_alone() -> None:
    setting = TOPIC["leader.replication.throttled.replicas"]
    assert setting.parse("*") == ("*",)
    assert setting.parse("0:1,1:2") == ("0:1", "1:2")
    assert setting.parse("") == ()
    for wrong in ("none", "*,0:1", "0:1:2"):
        with pytest.raises(ValueError, match="PARTITION:BROKER"):
            setting.parse(wrong)


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_a_share_group_begins_where_kafka_allows_it(text: str) -> None:
    assert GROUP["share.auto.offset.reset"].parse(text) == text


@pytest.mark.parametrize("text", ["x", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h"])
def test_a_share_group_does_not_begin_elsewhere(text: str) -> None:
    with pytest.raises(ValueError, match="by_duration"):
        GROUP["share.auto.offset.reset"].parse(text)


def test_a_wrong_secret_is_not_repeated_in_the_sentence() -> None:
    setting = Setting("some.password", PASSWORD, None)
    assert "hunter2" not in setting.quoted("hunter2")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2.5e-9, "-2.5E-9"),
        (math.inf, "Infinity"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(number: float, text: str) -> None:
    assert java_double(number) == text


def test_values_are_printed_as_kafka_prints_them() -> None:
    assert [shown(value) for value in (None, "x", True, 7, 0.5, ("a", "b"), ())] == [
        None,
        "x",
        "true",
        "7",
        "0.5",
        "a,b",
        "",
    ]


def test_units_are_read_from_names() -> None:
    assert unit_of("log.retention.minutes") is Unit.MINUTES
    assert unit_of("num.partitions") is None
    assert to_ms("log.retention.hours", 2) == 7_200_000
    assert to_ms("log.roll.ms", 5) == 5
    assert in_unit("1.5h", Unit.MILLISECONDS) == 5_400_000
    assert in_unit("512k", Unit.BYTES) == 524_288
    assert in_unit("5 parsecs", Unit.MILLISECONDS) is None
    assert in_unit("5d", Unit.BYTES) is None


def test_limits_of_addresses_are_found_by_the_usual_form_of_the_address() -> None:
    assert host_counts("127.0.0.1:20, 0:0:0:0:0:0:0:1:5,db.example:3") == {"127.0.0.1": 20, "::1": 5, "db.example": 3}


def test_numbers_cover_javas_range() -> None:
    assert Setting("a", INT, None).parse("-2147483648") == -(2**31)
    assert Setting("a", LONG, None).parse("9223372036854775807") == 2**63 - 1
    assert Setting("a", DOUBLE, None).parse("1E9") == 1e9
    assert Setting("a", LIST, None).parse("a") == ("a",)
