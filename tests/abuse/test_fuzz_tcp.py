"""Mutated requests over TCP to a live broker: it stays up, stays small, and serves others meanwhile.

20,000 frames by default, `PENSTOCK_FUZZ_FRAMES=200000` for more and `PENSTOCK_SEED=7` for others. Seeds are recorded
frames and messages made from the declarations, in every version. A connection is used until the broker ends it or does
not answer for a moment, as with a fetch that waits.
"""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import threading
from pathlib import Path

import pytest

from brokers import PenstockProcess
from bystanders import Bystander
from messages import OWN_FRAMES, SHARED_FRAMES, any_message, golden_frames
from penstock.wire import api
from penstock.wire.frame import encode_request
from processes import MIB, resident_bytes, socket_count

FRAMES = int(os.environ.get("PENSTOCK_FUZZ_FRAMES", "20000"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
LANES = 8
MAX_SEED_BYTES = 4000
MAX_GROWTH_BYTES = 128 * MIB
ANSWER_MS = 20
"""How long a lane waits for an answer before it takes another connection; nothing is decided by it."""

INTERESTING = [value.to_bytes(4, "big") for value in (0, 1, 0x7F, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1)]
ABORT_ON_CLOSE = struct.pack("ii", 1, 0)
LENGTH = struct.Struct(">i")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fuzzed_frames_leave_the_broker_alive_small_and_serving(tmp_path: Path) -> None:
    seeds = recorded_seeds() + made_seeds()
    with PenstockProcess(tmp_path) as broker, Bystander(broker.bootstrap) as bystander:
        bystander.wait_for_rounds(20)
        before, sockets = resident_bytes(broker.pid), socket_count(broker.pid)
        lanes = [Lane(broker.port, seeds, FRAMES // LANES, SEED * 1000 + number) for number in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
            assert lane.failure is None, lane.failure
        bystander.wait_for_rounds(20)
        grown = resident_bytes(broker.pid) - before
        print(
            f"\n{sum(lane.sent for lane in lanes)} frames on {sum(lane.connections for lane in lanes)} connections, "
            f"{sum(lane.answered for lane in lanes)} answered; {grown / MIB:.1f} MiB more, "
            f"{socket_count(broker.pid) - sockets} sockets more; bystander: {bystander.rounds} rounds, "
            f"slowest {bystander.slowest_seconds * 1000:.0f} ms"
        )
        check_no_bug(broker)
        assert grown < MAX_GROWTH_BYTES
    check_no_bug(broker)


def check_no_bug(broker: PenstockProcess) -> None:
    text = broker.stderr()
    assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:5000]
    assert "this is a bug" not in text, text


class Lane(threading.Thread):
    """One of several threads that send their share of the frames."""

    def __init__(self, port: int, seeds: list[bytes], count: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.sent = self.answered = self.connections = 0
        self.failure: str | None = None
        self._port = port
        self._seeds = seeds
        self._count = count
        self._seed = seed

    def run(self) -> None:
        chance = random.Random(self._seed)
        sock: socket.socket | None = None
        try:
            for _ in range(self._count):
                sock = sock or self._connect()
                if not self._is_answered(sock, mutated(chance, self._seeds)):
                    sock.close()
                    sock = None
        except OSError as error:
            self.failure = f"frame {self.sent} of Random({self._seed}): the broker takes no connections: {error}"

    def _connect(self) -> socket.socket:
        self.connections += 1
        sock = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_ON_CLOSE)
        return sock

    def _is_answered(self, sock: socket.socket, frame: bytes) -> bool:
        self.sent += 1
        try:
            sock.sendall(LENGTH.pack(len(frame)) + frame)
            ready, _, _ = select.select([sock], [], [], ANSWER_MS / 1000)
            if not ready:
                return False
            head = sock.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                return False
            left = LENGTH.unpack(head)[0]
            while left:
                part = sock.recv(min(left, 1 << 16))
                if not part:
                    return False
                left -= len(part)
        except (ConnectionError, TimeoutError):
            return False
        self.answered += 1
        return True


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed changed in one or two places, mostly so that it still decodes, and mostly behind its API and version."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 2)):
        first = 8 if len(data) > 8 and chance.random() < 0.9 else 0
        if len(data) <= first:
            break
        at = chance.randrange(first, len(data))
        (mutate,) = chance.choices((flip, overwrite, cut, drop, repeat, splice), (6, 3, 1, 1, 1, 1))
        mutate(data, at, chance, seeds)
    return bytes(data)


def flip(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    data[at] ^= 1 << chance.randrange(8)


def cut(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    del data[at:]


def drop(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    del data[at : at + chance.randint(1, 8)]


def repeat(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    data[at:at] = data[at : at + chance.randint(1, 16)]


def splice(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    donor = chance.choice(seeds)
    data[at:] = donor[chance.randrange(len(donor)) :]


def overwrite(data: bytearray, at: int, chance: random.Random, seeds: list[bytes]) -> None:
    data[at : at + 4] = chance.choice(INTERESTING)


def recorded_seeds() -> list[bytes]:
    """What real clients sent."""
    frames = [frame for path in (OWN_FRAMES, SHARED_FRAMES) if path.exists() for frame in golden_frames(path)]
    requests = [frame["frame"] for frame in frames if frame["direction"] == "request"]
    return [frame for frame in requests if len(frame) <= MAX_SEED_BYTES]


def made_seeds() -> list[bytes]:
    """One request of each API and version, from its declaration."""
    seeds = []
    for key in api.MODULES:
        one = api.load(key)
        for version in one.versions:
            message = any_message(random.Random(version), one.request, version)
            seeds.append(bytes(encode_request(one, version, 1, "fuzz", message))[LENGTH.size :])
    return seeds
