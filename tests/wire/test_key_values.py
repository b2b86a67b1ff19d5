"""Batches of keys and values: the same bytes as the general builder makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.batch_builder import build_batch
from penstock.wire.key_values import build_key_values
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import check_batch

PAIRS = st.lists(
    st.tuples(st.binary(max_size=1100), st.none() | st.binary(max_size=1100)), min_size=1, max_size=5
)  # fmt: skip


@given(PAIRS, st.integers(0, 2**40))
def test_the_bytes_are_those_of_the_general_builder(pairs, timestamp_ms):
    batch = build_key_values(pairs, timestamp_ms)
    records = [Record(offset, timestamp_ms, key, value) for offset, (key, value) in enumerate(pairs)]
    assert batch == build_batch(records)


@given(PAIRS, st.integers(0, 2**40), st.integers(0, 2**31 - 1))
def test_a_batch_may_have_its_offsets_and_its_leader_from_the_start(pairs, base_offset, leader_epoch):
    batch = build_key_values(pairs, 5, base_offset=base_offset, leader_epoch=leader_epoch)
    records = [Record(base_offset + delta, 5, key, value) for delta, (key, value) in enumerate(pairs)]
    assert batch == build_batch(records, leader_epoch=leader_epoch)


def test_a_long_batch_reads_back():
    pairs = [(b"%d" % number, None if number % 2 else b"v") for number in range(2000)]
    batch = build_key_values(pairs, 5)
    assert check_batch(batch, 0, len(batch)).record_count == 2000
    assert [(record.key, record.value) for record in iterate_records(batch)] == pairs
