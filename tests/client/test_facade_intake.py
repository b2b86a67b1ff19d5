"""What a consumer took since its last transaction, without librdkafka."""

from __future__ import annotations

from penstock.client.facade.intake import Intake
from penstock.types import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_it_knows_where_to_go_back_to_and_where_to_go_on() -> None:
    intake = Intake()
    for offset in (5, 6, 9):
        intake.hand(ONE, offset)
    intake.hand(TWO, 0)
    assert intake.starts == {ONE: 5, TWO: 0}
    assert intake.ends == {ONE: 10, TWO: 1}


def test_a_partition_of_it_that_goes_is_lost_and_another_is_not() -> None:
    intake = Intake()
    intake.hand(ONE, 5)
    intake.drop([TWO])
    assert intake.lost == []
    intake.drop([ONE, TWO])
    assert intake.lost == [ONE]


def test_after_the_commit_it_is_empty() -> None:
    intake = Intake()
    intake.hand(ONE, 5)
    intake.drop([ONE])
    intake.clear()
    assert (intake.starts, intake.ends, intake.lost) == ({}, {}, [])
