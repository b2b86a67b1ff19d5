"""The driver of small transactions: each connection sends its steps one after the other, each after the answer.

All connections take a step at the same time: what they send goes out, then an answer is taken from each. A step that is
answered with CONCURRENT_TRANSACTIONS, because the markers of the transaction before are still being written, is sent
again in the next turn, a moment later; how often is counted, for it costs the broker too. Every answer is checked.
"""

from __future__ import annotations

import gc
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.broker.loader import connect, receive_more

from .frames import Step

CONCURRENT_TRANSACTIONS = 51
RETRY_SECONDS = 0.001
RUN_TIMEOUT_SECONDS = 120.0
ANSWER_BYTES = 4096
_LENGTH = struct.Struct(">i")
_ERROR = struct.Struct(">h")


class _Line:
    """One connection and where it is in its steps."""

    def __init__(self, connection: socket.socket, steps: Sequence[Step]) -> None:
        self._connection = connection
        self._steps = steps
        self._next = 0
        self._buffer = bytearray(ANSWER_BYTES)

    @property
    def is_done(self) -> bool:
        return self._next == len(self._steps)

    def send(self) -> None:
        self._connection.sendall(self._steps[self._next].frame)

    def receive(self) -> bool:
        """Take the answer; False when the step is to be sent again."""
        buffer, filled = self._buffer, 0
        while filled < 4 or filled < 4 + _LENGTH.unpack_from(buffer)[0]:
            filled += receive_more(self._connection, buffer, filled)
        code = _ERROR.unpack_from(buffer, self._steps[self._next].error_at)[0]
        if code == CONCURRENT_TRANSACTIONS:
            return False
        if code:
            raise RuntimeError(f"the broker answered step {self._next} with error code {code}")
        self._next += 1
        return True


def run_steps(port: int, steps: Sequence[Sequence[Step]]) -> int:
    """Each sequence on a connection of its own, until all are done; how many steps had to be sent again."""
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    retries = 0
    with ExitStack() as stack, _no_collections():
        lines = [_Line(stack.enter_context(connect(port)), each) for each in steps]
        while lines:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the run did not end in {RUN_TIMEOUT_SECONDS:.0f} s")
            for line in lines:
                line.send()
            refused = sum([not line.receive() for line in lines])
            if refused:
                retries += refused
                time.sleep(RETRY_SECONDS)
            lines = [line for line in lines if not line.is_done]
    return retries


@contextmanager
def _no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
