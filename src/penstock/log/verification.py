"""Guards against a late write: what a log remembers of a producer whose transaction is being verified.

Before the first batch of a transaction the leader asks the transaction coordinator whether the partition belongs to it
(KIP-890). The answer takes a while, and an abort may pass it: the marker is written, and then the batch that was
verified before would begin a transaction that nobody ends. So the question starts with a guard, any transactional
write to the log, a marker above all, takes it away, and an append is let through only with the guard that is still
there. A new question after that makes a new guard, so an old answer never fits.

A guard that is not used stays, for it also remembers the lowest sequence that asked: a batch must not overtake one
before it that was refused for the moment. It goes when it is two rounds of `expire` old, or when there are too many;
that refuses a write, which is always safe. Kept in memory only: after a restart every transaction that is not in the
log already is verified anew.
"""

from __future__ import annotations

from penstock.errors import ErrorCode, KafkaError

MAX_GUARDS = 10_000
"""Producers that begin a transaction in one partition and have not written to it yet."""


class VerificationGuard:
    """The right to append the first batch of a transaction, while the log still holds it. Compared by identity."""

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, supports_epoch_bump: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The lowest sequence that asked: it must be appended first, whatever is verified first."""
        self.supports_epoch_bump = supports_epoch_bump


ONGOING = VerificationGuard(-1, 0, False)
"""For a batch of a transaction that the log knew when it was asked; no guard was made."""


class Verifications:
    """The guards of one log, by producer id."""

    __slots__ = ("_guards", "_old")

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}
        self._old: set[int] = set()
        """Producers whose guard was there when `expire` looked last."""

    def __len__(self) -> int:
        return len(self._guards)

    def start(self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool) -> VerificationGuard:
        """The guard of a producer that asks now; the one that is there serves all its batches in flight."""
        guard = self._guards.get(producer_id)
        if guard is None:
            if len(self._guards) >= MAX_GUARDS:
                self.end(next(iter(self._guards)))
            guard = self._guards[producer_id] = VerificationGuard(epoch, sequence, supports_epoch_bump)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence = epoch, sequence
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def check(self, producer_id: int, guard: VerificationGuard) -> None:
        """INVALID_TXN_STATE unless the guard is the one that is held for the producer."""
        if self._guards.get(producer_id) is not guard:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "The batch is not part of an ongoing transaction.")

    def end(self, producer_id: int) -> None:
        """A transactional batch or a marker of the producer is in the log."""
        self._guards.pop(producer_id, None)
        self._old.discard(producer_id)

    def expire(self) -> None:
        """Forget the guards that have been there since the call before."""
        for producer_id in self._old:
            del self._guards[producer_id]
        self._old = set(self._guards)

    def clear(self) -> None:
        self._guards.clear()
        self._old.clear()
