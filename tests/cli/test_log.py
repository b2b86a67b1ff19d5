"""`penstock log dump` on files that both brokers wrote, and on damaged ones."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from brokers import Broker
from cli.commands import run
from penstock.wire.batch_builder import ControlType, EndTxnMarker, build_batch, build_end_txn_marker
from penstock.wire.record import Record
from penstock.wire.records import Codec

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def entries(result: Result, kind: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return [entry for entry in found if entry["type"] == kind]


@pytest.fixture
def partition(broker: Broker, new_topic: Callable[..., str]) -> Path:
    """The directory of a partition with some segments, index entries and all codecs."""
    topic = new_topic(segment_bytes="1048576", index_interval_bytes="100")
    for codec in CODECS * 2:
        lines = "".join(f"k{number}:{number} {'x' * 200}\n" for number in range(3_000))
        arguments = ["--compression", codec, "--key-separator", ":", "--header", "h=1"]
        assert run("produce", topic, *arguments, bootstrap=broker.bootstrap, stdin=lines).exit_code == 0
    return broker.log_dir / f"{topic}-0"


def test_the_files_of_both_brokers_are_read_and_right(partition: Path) -> None:
    result = run("log", "dump", str(partition), "--check", "--json")
    assert result.exit_code == 0, result.stdout
    batches = entries(result, "batch")
    assert sum(int(str(batch["count"])) for batch in batches) == 30_000
    assert {batch["compression"] for batch in batches} == set(CODECS)
    assert all(batch["is_valid"] for batch in batches)
    assert entries(result, "topic")
    assert entries(result, "checkpoint")


def test_records_are_shown_with_keys_values_and_headers(partition: Path) -> None:
    result = run("log", "dump", str(partition / f"{0:020d}.log"), "--records", "--json")
    first = entries(result, "record")[0]
    assert (first["offset"], first["key"], first["value"]) == (0, "k0", "0 " + "x" * 200)
    assert first["headers"] == [{"key": "h", "value": "1"}]
    text = run("log", "dump", str(partition / f"{0:020d}.log"), "--records").stdout.splitlines()
    assert text[1].startswith("offsets 0 to ")
    assert 'key "k0"  value "0 xxxx' in text[2]


def test_one_record_is_singular(broker: Broker, topic: str) -> None:
    run("produce", topic, bootstrap=broker.bootstrap, stdin="v\n")
    text = run("log", "dump", str(broker.log_dir / f"{topic}-0" / f"{0:020d}.log")).stdout
    assert "offsets 0 to 0  1 record  position 0" in text


def test_a_flipped_bit_is_found(partition: Path, tmp_path: Path) -> None:
    copy = tmp_path / f"{0:020d}.log"
    damaged = bytearray((partition / copy.name).read_bytes())
    damaged[200] ^= 1
    copy.write_bytes(damaged)
    result = run("log", "dump", str(copy))
    assert result.exit_code == 1
    assert "WRONG: position 0: the checksum of the batch at offset 0 is wrong." in result.stdout
    assert "1 problem in 1 file." in result.stderr


def test_a_torn_end_is_told_from_garbage(tmp_path: Path) -> None:
    batch = bytes(build_batch([Record(0, 1, b"k", b"v")]))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch + batch[:30])
    result = run("log", "dump", str(path))
    assert f"position {len(batch)}: the last batch is cut; 30 bytes of it are there." in result.stdout
    path.write_bytes(batch + bytes(100))
    result = run("log", "dump", str(path))
    assert "The 100 bytes from here on are no batches." in result.stdout
    assert result.exit_code == 1


def test_an_index_that_does_not_fit_its_log_is_found(partition: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy-0"
    shutil.copytree(partition, directory)
    index, log = directory / f"{0:020d}.index", directory / f"{0:020d}.log"
    index.write_bytes((10).to_bytes(4, "big") + (17).to_bytes(4, "big") + (9).to_bytes(4, "big") + bytes(3) + b"\x12zz")
    result = run("log", "dump", str(index), "--check")
    assert "offset 10: no batch starts at position 17." in result.stdout
    assert "the entry for offset 9 is not larger than the one before it." not in run("log", "dump", str(log)).stdout
    assert "the entry for offset 9 is not larger" in result.stdout
    assert "2 bytes at the end are no entry" in result.stdout
    times = directory / f"{0:020d}.timeindex"
    times.write_bytes((5).to_bytes(8, "big") + (2).to_bytes(4, "big"))
    assert "timestamp 5: the batch with offset 2 is of " in run("log", "dump", str(times), "--check").stdout


def test_the_markers_of_transactions_and_every_header_field_are_shown(tmp_path: Path) -> None:
    path = tmp_path / f"{7:020d}.log"
    record = Record(7, 1_700_000_000_000, None, b"\x1b[31m")
    data = build_batch(
        [record],
        codec=Codec.ZSTD,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        leader_epoch=3,
        is_transactional=True,
    )
    marker = EndTxnMarker(ControlType.COMMIT, 4)
    data += build_end_txn_marker(marker, producer_id=5, producer_epoch=2, timestamp=1_700_000_000_001, base_offset=8)
    path.write_bytes(data)
    lines = run("log", "dump", str(path), "--records").stdout.splitlines()
    assert "zstd  create time 2023-11-14T22:13:20.000Z  leader epoch 3  producer 5 epoch 2 sequence 9 to 9" in lines[1]
    assert "transactional" in lines[1]
    assert lines[2].endswith('key null  value "\\u001b[31m"')
    assert "control" in lines[3]
    assert lines[4] == "    offset 8  commit marker  coordinator epoch 4"


def test_snapshots_and_checkpoints_of_both_brokers_are_read(broker: Broker, partition: Path) -> None:
    def snapshots() -> list[str]:
        return [str(path) for path in partition.glob("*.snapshot") if int(path.stem) > 0]

    deadline = time.monotonic() + 30
    while not snapshots() and time.monotonic() < deadline:
        time.sleep(0.05)  # taken when the second segment began, written a moment later
    producers = entries(run("log", "dump", *snapshots(), "--json"), "producer")
    assert producers
    assert all(int(str(producer["last_sequence"])) >= 0 for producer in producers)
    epochs = run("log", "dump", str(partition / "leader-epoch-checkpoint")).stdout.splitlines()
    assert epochs[1].startswith("epoch ")


def test_what_is_damaged_or_no_file_of_a_log_is_said(tmp_path: Path) -> None:
    snapshot, checkpoint = tmp_path / f"{3:020d}.snapshot", tmp_path / "log-start-offset-checkpoint"
    snapshot.write_bytes(b"\0\1garbage")
    assert "it is no snapshot of producers" in run("log", "dump", str(snapshot)).stdout
    checkpoint.write_text("0\n2\nt 0 5\n")
    assert "lines are missing" in run("log", "dump", str(checkpoint)).stdout
    checkpoint.write_text("0\n2\nt 0 5\nt zero 5\n")
    result = run("log", "dump", str(checkpoint))
    assert "topic t  partition 0  offset 5" in result.stdout
    assert "the line 't zero 5' is not topic partition offset." in result.stdout
    (tmp_path / "notes.txt").write_text("")
    assert "is no file of a log" in str(run("log", "dump", str(tmp_path / "notes.txt")).exception)
    (tmp_path / "empty").mkdir()
    assert "holds no files of a log" in str(run("log", "dump", str(tmp_path / "empty")).exception)
    assert run("log", "dump", str(tmp_path / "missing")).exit_code == 2
