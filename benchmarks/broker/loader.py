"""The raw loader: sends pre-encoded produce requests and counts the answers, with as little CPU as it can.

It shares the machine with the broker, so it must cost little. All the frames that the window of a connection allows
go out in one send from one buffer, and answers are counted by their length prefixes; the error code is read in one
answer of `CHECK_EVERY`. Correctness is checked after the run by the log's end offsets (`topics.check_written`).
"""

from __future__ import annotations

import gc
import select
import socket
import struct
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

RECEIVE_BYTES = 256 << 10
"""More than the longest answer, that to 1,000 partitions (33 KB), five times."""
CHECK_EVERY = 64
RUN_TIMEOUT_SECONDS = 120.0
_LENGTH = struct.Struct(">i")
_ERROR = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Load:
    """What one connection sends: `count` frames, read from `data` and again from its beginning after `period_bytes`."""

    data: memoryview
    frame_bytes: int
    period_bytes: int
    count: int
    error_at: int

    @classmethod
    def repeated(cls, frame: bytes, count: int, error_at: int, in_flight: int) -> Load:
        """The same frame `count` times; the buffer holds the window and one frame more, so that no send wraps."""
        return cls(memoryview(frame * (in_flight + 1)), len(frame), len(frame), count, error_at)

    @classmethod
    def cycle(cls, frames: Sequence[bytes], count: int, error_at: int, in_flight: int) -> Load:
        """These frames, all of one size, in turn; the first ones stand at the end again, so that no send wraps."""
        (frame_bytes,) = {len(frame) for frame in frames}
        cycle = b"".join(frames)
        again = cycle * (1 + in_flight // len(frames))
        return cls(memoryview(cycle + again[: (in_flight + 1) * frame_bytes]), frame_bytes, len(cycle), count, error_at)

    @classmethod
    def sequence(cls, frames: bytearray, count: int, error_at: int) -> Load:
        """Frames that all differ, each sent once."""
        return cls(memoryview(frames), len(frames) // count, len(frames), count, error_at)


@dataclass(slots=True)
class Channel:
    """One connection: what it sends, and the answers that it has got."""

    socket: socket.socket
    load: Load
    in_flight: int
    sent_bytes: int = 0
    answered: int = 0
    filled: int = 0
    is_watching_writes: bool = False
    buffer: bytearray = field(default_factory=lambda: bytearray(RECEIVE_BYTES))

    def send(self) -> bool:
        """Send what the window allows; True when some of it still waits for the socket."""
        return self.send_until(self.answered + self.in_flight)

    def send_until(self, frames: int) -> bool:
        """Send until it is so many in all, or all there are."""
        load = self.load
        allowed = min(frames, load.count) * load.frame_bytes
        while self.sent_bytes < allowed:
            at = self.sent_bytes % load.period_bytes
            try:
                self.sent_bytes += self.socket.send(load.data[at : at + allowed - self.sent_bytes])
            except BlockingIOError:
                return True
        return False

    def receive(self) -> None:
        """Take what has come and count the whole answers in it."""
        read = self.socket.recv_into(memoryview(self.buffer)[self.filled :])
        if read == 0:
            raise ConnectionError(f"the broker closed the connection after {self.answered} answers")
        self.filled += read
        at = 0
        while self.filled - at >= 4:
            end = at + 4 + _LENGTH.unpack_from(self.buffer, at)[0]
            if end > self.filled:
                break
            if self.answered % CHECK_EVERY == 0:
                check_error(self.buffer, at + self.load.error_at)
            self.answered += 1
            at = end
        if at:
            rest = self.filled - at
            self.buffer[:rest] = self.buffer[at : self.filled]
            self.filled = rest


def run_pipelined(port: int, loads: Sequence[Load], in_flight: int) -> None:
    """Each load on a connection of its own, `in_flight` requests at a time; returns when all are answered."""
    channels: dict[int, Channel] = {}
    try:
        for load in loads:
            channel = Channel(connect(port), load, in_flight)
            channel.socket.setblocking(False)
            channels[channel.socket.fileno()] = channel
        gc.disable()
        with select.epoll() as poll:
            _drive(poll, channels)
    finally:
        gc.enable()
        for channel in channels.values():
            channel.socket.close()


def _drive(poll: select.epoll, channels: dict[int, Channel]) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    for descriptor, channel in channels.items():
        poll.register(descriptor, select.EPOLLIN)
        _send(poll, descriptor, channel)
    running = len(channels)
    while running:
        events = poll.poll(5.0)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the run did not end in {RUN_TIMEOUT_SECONDS:.0f} s")
        for descriptor, event in events:
            channel = channels[descriptor]
            if event & ~select.EPOLLOUT:
                channel.receive()
                if channel.answered == channel.load.count:
                    poll.unregister(descriptor)
                    running -= 1
                    continue
            _send(poll, descriptor, channel)


def _send(poll: select.epoll, descriptor: int, channel: Channel) -> None:
    waits = channel.send()
    if waits != channel.is_watching_writes:
        channel.is_watching_writes = waits
        poll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if waits else 0))


def run_one_at_a_time(port: int, load: Load) -> array[int]:
    """One connection, the next request after the answer; returns the nanoseconds that each took."""
    taken = array("q", bytes(8 * load.count))
    frame = load.data[: load.frame_bytes]
    buffer = bytearray(RECEIVE_BYTES)
    now = time.perf_counter_ns
    with connect(port) as connection:
        gc.disable()
        try:
            for index in range(load.count):
                began = now()
                connection.sendall(frame)
                filled = connection.recv_into(buffer)
                while filled < 4 or filled < 4 + _LENGTH.unpack_from(buffer)[0]:
                    filled += receive_more(connection, buffer, filled)
                taken[index] = now() - began
                if index % CHECK_EVERY == 0:
                    check_error(buffer, load.error_at)
        finally:
            gc.enable()
    return taken


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=RUN_TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_more(connection: socket.socket, buffer: bytearray, filled: int) -> int:
    read = connection.recv_into(memoryview(buffer)[filled:])
    if read == 0:
        raise ConnectionError("the broker closed the connection")
    return read


def check_error(buffer: bytearray, at: int) -> None:
    error_code = _ERROR.unpack_from(buffer, at)[0]
    if error_code:
        raise RuntimeError(f"the broker answered with error code {error_code}")
