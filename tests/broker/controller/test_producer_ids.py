"""Producer ids: never twice, whoever asks and whoever is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.broker.controller.producer_ids import BLOCK_SIZE, ProducerIds
from penstock.errors import KafkaError
from penstock.metadata import records
from penstock.metadata.records import CounterRecord
from penstock.metadata.sqlite import SqliteStore
from penstock.metadata.store import Put


def test_many_at_once_get_different_ids_in_few_writes(tmp_path: Path) -> None:
    async def run() -> None:
        store = await SqliteStore.open(str(tmp_path / "meta.db"))
        brokers = [ProducerIds(store) for _ in range(3)]
        ids = await asyncio.gather(*(brokers[n % 3].next() for n in range(5 * BLOCK_SIZE)))
        assert len(set(ids)) == len(ids)
        entry = await store.get(records.PRODUCER_IDS_KEY)
        assert entry is not None
        assert records.decode_counter(entry.key, entry.value).next == 6 * BLOCK_SIZE
        await store.close()

    asyncio.run(run())


def test_the_last_ids_are_refused_and_not_repeated(tmp_path: Path) -> None:
    async def run() -> None:
        store = await SqliteStore.open(str(tmp_path / "meta.db"))
        await store.txn([Put(records.PRODUCER_IDS_KEY, CounterRecord(2**63 - 10).encode())])
        with pytest.raises(KafkaError, match="handed out"):
            await ProducerIds(store).next()
        await store.close()

    asyncio.run(run())


TAKER = """
import asyncio, sys
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.metadata.sqlite import SqliteStore
async def main():
    ids = ProducerIds(await SqliteStore.open(sys.argv[1]))
    while True:
        print(await ids.next(), flush=True)
asyncio.run(main())
"""


def test_after_a_kill_no_id_is_given_again(tmp_path: Path) -> None:
    given: list[int] = []
    for round_number in range(4):
        command = [sys.executable, "-c", TAKER, str(tmp_path / "meta.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as taker:
            assert taker.stdout is not None
            given += [int(taker.stdout.readline()) for _ in range(1 + 700 * round_number)]
            taker.send_signal(signal.SIGKILL)
            given += [int(line) for line in taker.stdout if line.endswith("\n")]
    assert len(set(given)) == len(given)
