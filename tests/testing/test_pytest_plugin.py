"""The pytest plugin, run by pytest in a project of its own."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "penstock.testing.pytest_plugin"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose pytest has our plugin, and only ours, whether the package is installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider")


def test_a_test_gets_a_broker_and_a_topic(project: pytest.Pytester):
    project.makepyfile(
        """
        from confluent_kafka import Consumer, Producer, TopicPartition

        def test_round_trip(penstock_broker, penstock_topic):
            producer = Producer({"bootstrap.servers": penstock_broker.bootstrap})
            producer.produce(penstock_topic, b"it works")
            assert producer.flush(10) == 0
            consumer = Consumer({"bootstrap.servers": penstock_broker.bootstrap, "group.id": "unused"})
            consumer.assign([TopicPartition(penstock_topic, 0, 0)])
            assert consumer.poll(10).value() == b"it works"
            consumer.close()
        """
    )
    run(project).assert_outcomes(passed=1)


def test_the_broker_is_shared_and_the_topics_are_not(project: pytest.Pytester):
    project.makepyfile(
        """
        import pytest

        seen = []

        @pytest.mark.parametrize("number", [1, 2, "a name with / and ü"])
        def test_mine(penstock_broker, penstock_topic, number):
            seen.append((penstock_broker.bootstrap, penstock_topic))

        def test_they_differ():
            assert len({bootstrap for bootstrap, _ in seen}) == 1
            assert len({topic for _, topic in seen}) == 3
        """
    )
    run(project).assert_outcomes(passed=4)


def test_a_project_gives_settings_by_overriding_a_fixture(project: pytest.Pytester):
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def penstock_settings():
            return {"num.partitions": 4, "auto.create.topics.enable": True}
        """
    )
    project.makepyfile(
        """
        from kafka import KafkaProducer

        def test_four(penstock_broker):
            producer = KafkaProducer(bootstrap_servers=penstock_broker.bootstrap)
            producer.send("made-by-use", b"v").get(20)
            assert len(producer.partitions_for("made-by-use")) == 4
            producer.close()
        """
    )
    run(project).assert_outcomes(passed=1)


def test_a_run_that_does_not_use_it_does_not_pay_for_it(project: pytest.Pytester):
    project.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            assert "penstock.testing.pytest_plugin" in sys.modules
            assert "penstock.broker" not in sys.modules
            assert "uvloop" not in sys.modules
        """
    )
    run(project).assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_where_the_package_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"penstock": PLUGIN}
