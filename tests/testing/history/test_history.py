"""The history checker sees each broken rule in a history made by hand, and says nothing of good ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from penstock.testing import Cluster
from penstock.testing.history import Event, Happening, History, Recorder, Verdict, check
from penstock.testing.history.cycles import STRICT
from penstock.testing.history.recorder import read_events
from penstock.testing.history.verdict import PROPERTIES

P, Q = "t-0", "t-1"


class Story:
    """A history told line by line, in the order of time: `story.send("a", "T1"); story.ack("a", P, 0)`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._clock = itertools.count(1)

    def tell(self, happening: Happening, process: str = "w", **fields: Any) -> None:
        self.events.append(Event(next(self._clock), process, happening, **fields))

    def write(self, transaction: str | None, *writes: tuple[str, str, int], process: str = "w") -> None:
        """Values with their places, begun if need be, acknowledged, not ended."""
        begun = {event.transaction for event in self.events if event.happening is Happening.BEGIN}
        if transaction is not None and transaction not in begun:
            self.tell(Happening.BEGIN, process, transaction=transaction)
        for value, partition, offset in writes:
            self.tell(Happening.SEND, process, transaction=transaction, value=value)
            self.tell(Happening.ACK, process, value=value, partition=partition, offset=offset)

    def end(self, transaction: str, outcome: str, process: str = "w") -> None:
        if outcome != "aborted":
            self.tell(Happening.COMMIT, process, transaction=transaction)
        if outcome != "unknown":
            self.tell(Happening(outcome), process, transaction=transaction)

    def transaction(self, name: str, *writes: tuple[str, str, int], outcome: str = "committed", **fields: Any) -> None:
        self.write(name, *writes, **fields)
        self.end(name, outcome, **fields)

    def read(self, *records: tuple[str, str, int], process: str = "r", transaction: str | None = None) -> None:
        got = tuple((partition, offset, value) for value, partition, offset in records)
        self.tell(Happening.POLL, process, records=got, transaction=transaction)  # type: ignore[arg-type]

    def verdict(self, **settings: Any) -> Verdict:
        lines = [event.line() for event in self.events]
        return check(History(map(Event.parse, lines)), **settings)


def aborted_read(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), outcome="aborted")
    story.transaction("T2", ("b", P, 2))
    story.read(("a", P, 0), ("b", P, 2))


def read_of_a_transaction_whose_client_died(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.read(("a", P, 0))


def read_of_what_nobody_wrote(story: Story) -> None:
    story.read(("a", P, 0))


def read_of_a_refused_send(story: Story) -> None:
    story.tell(Happening.SEND, value="a")
    story.tell(Happening.FAIL, value="a")
    story.read(("a", P, 0))


def read_of_a_refused_send_of_a_committed_transaction(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.tell(Happening.SEND, transaction="T1", value="b")
    story.tell(Happening.FAIL, value="b")
    story.end("T1", "committed")
    story.read(("a", P, 0), ("b", P, 1))


def two_readers_see_different_values(story: Story) -> None:
    story.transaction("T1", ("a", P, 0))
    story.transaction("T2", ("b", P, 1))
    story.read(("a", P, 0), ("b", P, 1))
    story.read(("b", P, 0), process="r2")


def the_acknowledged_offset_holds_another_value(story: Story) -> None:
    story.transaction("T1", ("a", P, 0))
    story.transaction("T2", ("b", P, 1))
    story.read(("b", P, 0))


def lost_write(story: Story) -> None:
    story.transaction("T1", ("a", P, 0))
    story.transaction("T2", ("b", P, 2))
    story.tell(Happening.PLACE, "r")
    story.read(("b", P, 2))


def lost_single_send(story: Story) -> None:
    story.write(None, ("a", P, 0), ("b", P, 1))
    story.read(("b", P, 1))


def a_reader_goes_back(story: Story) -> None:
    story.write(None, ("a", P, 0), ("b", P, 1))
    story.read(("a", P, 0), ("b", P, 1))
    story.read(("a", P, 0))


def a_reader_skips(story: Story) -> None:
    story.write(None, ("a", P, 0), ("b", P, 1), ("c", P, 2))
    story.read(("a", P, 0), ("b", P, 1), ("c", P, 2), process="another")
    story.read(("a", P, 0))
    story.read(("c", P, 2))


def writes_of_a_transaction_are_swapped(story: Story) -> None:
    story.transaction("T1", ("a", P, 1), ("b", P, 0))
    story.read(("b", P, 0), ("a", P, 1))


def a_later_transaction_lies_before(story: Story) -> None:
    story.transaction("T1", ("a", P, 2))
    story.transaction("T2", ("b", P, 0))
    story.read(("b", P, 0), ("a", P, 2))


def a_transaction_sees_its_own_write(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.read(("a", P, 0), transaction="T1", process="w")
    story.end("T1", "committed")
    story.read(("a", P, 0))


def a_read_before_the_commit(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.read(("a", P, 0))
    story.end("T1", "committed")


def a_value_is_doubled(story: Story) -> None:
    story.transaction("T1", ("a", P, 0))
    story.read(("a", P, 0), ("a", P, 1))


def nobody_sees_what_was_committed(story: Story) -> None:
    story.transaction("T1", ("a", P, 0))
    story.transaction("T2", ("b", P, 2))
    story.read(("a", P, 0))


def half_of_a_transaction_is_seen(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), ("b", Q, 0))
    story.read(("a", P, 0))


def half_of_a_transaction_whose_client_never_heard(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), ("b", Q, 0), outcome="unknown")
    story.read(("b", Q, 0))


def two_transactions_read_each_other(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.write("T2", ("b", Q, 0), process="w2")
    story.tell(Happening.COMMIT, transaction="T1")
    story.tell(Happening.COMMIT, "w2", transaction="T2")
    story.read(("b", Q, 0), transaction="T1", process="w")
    story.read(("a", P, 0), transaction="T2", process="w2")
    story.tell(Happening.COMMITTED, transaction="T1")
    story.tell(Happening.COMMITTED, "w2", transaction="T2")


def copy(story: Story, name: str, offsets: Iterable[int], outcome: str = "committed", process: str = "w") -> None:
    """A transaction that reads inputs and writes as many outputs."""
    took = list(offsets)
    story.tell(Happening.BEGIN, process, transaction=name)
    story.tell(Happening.PLACE, process)
    story.read(*((f"in{offset}", "in-0", offset) for offset in took), transaction=name, process=process)
    end = 100 + sum(event.happening is Happening.ACK for event in story.events)
    story.write(name, *((f"{offset} {name}", P, end + place) for place, offset in enumerate(took)), process=process)
    story.tell(Happening.POSITIONS, process, transaction=name, group="g", positions={"in-0": took[-1] + 1})
    story.end(name, outcome, process=process)


def inputs(story: Story, count: int = 4) -> None:
    story.write(None, *((f"in{offset}", "in-0", offset) for offset in range(count)), process="loader")


def outputs(story: Story, *transactions: str) -> None:
    """A reader of everything that these wrote."""
    writes = {event.value for event in story.events if event.transaction in transactions and event.value}
    acks = [event for event in story.events if event.happening is Happening.ACK and event.value in writes]
    story.read(*((str(event.value), P, int(event.offset or 0)) for event in acks), process="r")


def a_message_is_processed_twice(story: Story) -> None:
    inputs(story)
    copy(story, "T1", [0, 1])
    copy(story, "T2", [1, 2, 3], process="w2")
    outputs(story, "T1", "T2")


def a_message_is_never_processed(story: Story) -> None:
    inputs(story)
    copy(story, "T1", [0])
    copy(story, "T2", [2, 3])
    story.read(("in1", "in-0", 1), process="onlooker")
    outputs(story, "T1", "T2")


BAD: dict[str, list[Callable[[Story], None]]] = {
    "aborted read": [
        aborted_read, read_of_a_transaction_whose_client_died, read_of_what_nobody_wrote, read_of_a_refused_send,
        read_of_a_refused_send_of_a_committed_transaction,
    ],
    "inconsistent offsets": [two_readers_see_different_values, the_acknowledged_offset_holds_another_value],
    "lost write": [lost_write, lost_single_send],
    "read contiguity": [a_reader_goes_back, a_reader_skips],
    "write order": [writes_of_a_transaction_are_swapped, a_later_transaction_lies_before],
    "precommitted read": [a_transaction_sees_its_own_write, a_read_before_the_commit],
    "duplicate": [a_value_is_doubled],
    "unseen": [nobody_sees_what_was_committed],
    "half seen": [half_of_a_transaction_is_seen, half_of_a_transaction_whose_client_never_heard],
    "cycle": [two_transactions_read_each_other],
    "processed twice": [a_message_is_processed_twice],
    "never processed": [a_message_is_never_processed],
}  # fmt: skip
SIDE_EFFECTS = {
    "lost_write": {"unseen"},
    "lost_single_send": {"unseen"},
    "the_acknowledged_offset_holds_another_value": {"duplicate", "unseen", "lost write"},
    "two_readers_see_different_values": {"duplicate"},
}
"""What else is broken when a rule is: a write that nobody saw is also unseen."""


@pytest.mark.parametrize(
    ("rule", "tell"),
    [pytest.param(rule, tell, id=f"{rule}-{tell.__name__}") for rule, stories in BAD.items() for tell in stories],
)
def test_a_broken_rule_is_seen_and_told(rule: str, tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    verdict = story.verdict()
    assert rule in verdict.broken_rules, verdict
    assert verdict.broken_rules - {rule} <= SIDE_EFFECTS.get(tell.__name__, set()), verdict
    assert all(each.sentence.endswith(".") for each in verdict.violations)


def test_every_rule_has_a_bad_history() -> None:
    assert set(BAD) == {*PROPERTIES, "cycle"}


def everything_goes_well(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), ("b", Q, 0))
    story.transaction("T2", ("c", P, 2), ("d", P, 3))
    story.read(("a", P, 0), ("c", P, 2), ("d", P, 3), ("b", Q, 0))


def aborts_and_deaths_that_nobody_sees(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), outcome="aborted")
    story.write("T2", ("b", P, 2), process="w2")
    story.transaction("T3", ("c", P, 4), outcome="unknown", process="w3")
    story.tell(Happening.SEND, "w4", value="never acknowledged")
    story.transaction("T5", ("e", P, 6), process="w5")
    story.read(("e", P, 6))


def a_commit_whose_answer_was_lost(story: Story) -> None:
    story.transaction("T1", ("a", P, 0), ("b", Q, 0), outcome="unknown")
    story.read(("a", P, 0))
    story.read(("b", Q, 0))


def a_send_whose_answer_was_lost(story: Story) -> None:
    story.tell(Happening.SEND, value="a")
    story.read(("a", P, 0))


def a_transaction_is_committed_without_a_refused_send(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.tell(Happening.SEND, transaction="T1", value="too large")
    story.tell(Happening.FAIL, value="too large")
    story.end("T1", "committed")
    story.tell(Happening.BEGIN, transaction="T2")
    story.tell(Happening.SEND, transaction="T2", value="the only one")
    story.tell(Happening.FAIL, value="the only one")
    story.end("T2", "committed")
    story.read(("a", P, 0))


def a_refusal_is_told_after_the_commit(story: Story) -> None:
    story.write("T1", ("a", P, 0))
    story.tell(Happening.SEND, transaction="T1", value="b")
    story.end("T1", "committed")
    story.tell(Happening.FAIL, value="b")
    story.read(("a", P, 0))


def a_reader_is_placed_anew(story: Story) -> None:
    story.write(None, ("a", P, 0), ("b", P, 1), ("c", Q, 0))
    story.read(("a", P, 0), ("b", P, 1), ("c", Q, 0))
    story.tell(Happening.PLACE, "r", partitions=(P,))
    story.read(("a", P, 0))


def a_copy_with_an_abort_and_a_death(story: Story) -> None:
    inputs(story)
    copy(story, "T1", [0, 1])
    copy(story, "T2", [2, 3], outcome="aborted")
    copy(story, "T3", [2, 3], outcome="unknown", process="w2")
    copy(story, "T4", [2, 3], process="w3")
    outputs(story, "T1", "T4")


GOOD = [
    everything_goes_well, aborts_and_deaths_that_nobody_sees, a_commit_whose_answer_was_lost,
    a_send_whose_answer_was_lost, a_reader_is_placed_anew, a_copy_with_an_abort_and_a_death,
    a_transaction_is_committed_without_a_refused_send, a_refusal_is_told_after_the_commit,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_history_is_good(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.verdict().is_good, story.verdict()


def interleaved(story: Story) -> None:
    """Two transactions side by side, in one order in P and in the other in Q: Kafka does not keep them apart."""
    story.write("T1", ("a", P, 0))
    story.write("T2", ("b", P, 1), ("c", Q, 0), process="w2")
    story.write("T1", ("d", Q, 1))
    story.end("T2", "committed", process="w2")
    story.end("T1", "committed")
    story.read(("a", P, 0), ("b", P, 1), ("c", Q, 0), ("d", Q, 1))


def test_writes_side_by_side_are_noted_and_forbidden_only_where_a_test_says_so() -> None:
    story = Story()
    interleaved(story)
    verdict = story.verdict()
    assert verdict.is_good
    assert [note.rule for note in verdict.notes] == ["cycle"]
    strict = story.verdict(forbidden_cycles=STRICT)
    assert strict.broken_rules == {"cycle"}
    assert strict.violations[0].sentence == "Transactions depend on themselves: T1 -ww-> T2 -ww-> T1."


def test_a_long_cycle_is_told_whole() -> None:
    story = Story()
    for number in range(5):
        story.write(f"T{number}", (f"v{number}", f"t-{number}", 0), process=f"w{number}")
        story.tell(Happening.COMMIT, f"w{number}", transaction=f"T{number}")
    for number in range(5):
        read = f"v{number}", f"t-{number}", 0
        story.read(read, transaction=f"T{(number + 1) % 5}", process=f"w{(number + 1) % 5}")
    for number in range(5):
        story.tell(Happening.COMMITTED, f"w{number}", transaction=f"T{number}")
    (cycle,) = (each.sentence for each in story.verdict().violations if each.rule == "cycle")
    assert cycle.count("-wr->") == 5


def test_what_was_read_before_the_end_of_a_transaction_is_noted() -> None:
    story = Story()
    story.transaction("T1", ("a", P, 0), ("b", P, 1))
    story.tell(Happening.BEGIN, "w2", transaction="T2")
    story.read(("a", P, 0), transaction="T2", process="w2")
    story.end("T2", "committed", process="w2")
    story.read(("a", P, 0), ("b", P, 1))
    verdict = story.verdict()
    assert verdict.is_good
    assert [note.rule for note in verdict.notes] == ["intermediate read"]


def test_before_the_end_nobody_needs_to_have_seen_everything() -> None:
    story = Story()
    half_of_a_transaction_is_seen(story)
    story.transaction("T9", ("z", P, 9), process="w9")
    assert story.verdict(is_healed=False).is_good


def test_a_verdict_counts_what_it_does_not_tell() -> None:
    story = Story()
    story.read(*((f"v{number}", P, number) for number in range(20)))
    text = str(story.verdict())
    assert text.count("VIOLATION, aborted read") == 6
    assert text.endswith("VIOLATION, aborted read: and 15 more.")
    assert "0 transactions" in text
    assert "20 reads" in text


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([(Happening.SEND, {"value": "a"})] * 2, "sent twice"),
        ([(Happening.BEGIN, {"transaction": "T"})] * 2, "begun twice"),
        ([(Happening.COMMIT, {"transaction": "T"})], "Nobody began"),
        ([(Happening.ACK, {"value": "a", "partition": P, "offset": 0})], "Nobody sent"),
        ([(Happening.SEND, {})], "needs a value"),
        ([(Happening.BEGIN, {})], "needs a transaction"),
    ],
)
def test_a_history_that_contradicts_itself_is_the_tests_fault(events: Any, words: str) -> None:
    story = Story()
    for happening, fields in events:
        story.tell(happening, **fields)
    with pytest.raises(ValueError, match=words):
        story.verdict()


def test_a_recorder_keeps_what_was_recorded_and_half_a_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    recorder = Recorder(path, "w")
    transaction = recorder.begin()
    recorder.send("a", transaction)
    recorder.acknowledged("a", P, 0)
    recorder.positions(transaction, "g", {"in-0": 3})
    recorder.commit(transaction)
    recorder.committed(transaction)
    recorder.poll([(P, 0, "a")])
    recorder.poll([])
    recorder.close()
    with path.open("a") as file:
        file.write('{"at": 12, "proc')
    events = read_events(path)
    assert [event.happening for event in events] == ["begin", "send", "ack", "positions", "commit", "committed", "poll"]
    assert transaction == "w/1"
    assert History.load([path]).transactions[transaction].positions == {"in-0": 3}


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"at": 1, "process": "w", "happening": "sneeze"}', "nonsense"])
def test_a_line_that_is_none_is_a_sentence(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of a history"):
        Event.parse(line)


def test_a_wrong_line_is_told_with_its_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text(f"{Event(1, 'w', Happening.BEGIN, transaction='T').line()}\nnonsense\n")
    with pytest.raises(ValueError, match=r"w\.jsonl, line 2: This is not a line of a history: 'nonsense"):
        History.load([path])


def test_nothing_recorded_is_no_pass(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There are no files of a history"):
        History.load(tmp_path.glob("*.jsonl"))
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ValueError, match=r"No line was recorded in .*empty\.jsonl; nothing can be said"):
        History.load(tmp_path.glob("*.jsonl"))


def test_the_example_of_the_documentation_is_a_good_history(tmp_path: Path) -> None:
    documentation = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
    (example,) = (each for each in documentation.read_text().split("```python\n") if "reader = Recorder(" in each)
    with Cluster() as cluster:
        cluster.create_topic("orders")
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "orders"})
        producer.init_transactions(20)
        exec(example.split("```")[0], {"directory": tmp_path, "producer": producer, "consumer": consumer})
        consumer.close()
    verdict = check(History.load(tmp_path.glob("*.jsonl")))
    assert verdict.is_good, verdict
    assert verdict.summary.startswith("1 transactions (1 committed"), verdict
    assert verdict.summary.endswith("1 writes, 1 reads."), verdict


def test_the_command_tells_the_verdict(tmp_path: Path) -> None:
    story = Story()
    aborted_read(story)
    path = tmp_path / "h.jsonl"
    path.write_text("".join(event.line() + "\n" for event in story.events))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock.testing.history", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    ended = run(str(path))
    assert ended.returncode == 1
    assert "VIOLATION, aborted read: r read 'a' at offset 0 of t-0, which transaction T1 of w wrote" in ended.stdout
    assert run(str(tmp_path / "nothing")).returncode == 2
    assert run().returncode == 2
    (tmp_path / "empty.jsonl").touch()
    empty = run(str(tmp_path / "empty.jsonl"))
    assert empty.returncode == 2
    assert "No line was recorded" in empty.stderr
