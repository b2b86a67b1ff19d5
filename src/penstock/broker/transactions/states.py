"""Writes what was decided of a transactional id: its record; at the end of a transaction the markers and a last one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.broker.client_text import shown
from penstock.broker.internal_topic import told
from penstock.broker.transactions import metadata as steps
from penstock.broker.transactions.home import Home
from penstock.broker.transactions.markers import RETRY_S, Marker, MarkerWriter
from penstock.broker.transactions.metadata import ENDING, NO_PRODUCER_EPOCH, PREPARE_COMMIT, TransactionMetadata
from penstock.broker.transactions.records import TransactionRecord, encode
from penstock.broker.transactions.shard import TransactionalId
from penstock.env.clock import Clock
from penstock.errors import KafkaError

logger = logging.getLogger(__name__)

OnDone = Callable[[KafkaError | None], None]

_new = tuple.__new__
"""Makes a record in a third of the time that calling it takes."""


class StateWriter:
    """Nothing it writes is for a partition that `is_ours` no longer says is this broker's."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, markers: MarkerWriter, is_ours: Callable[[Home], bool]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._markers = markers
        self._is_ours = is_ours

    def write(self, home: Home, found: TransactionalId, decided: TransactionMetadata, on_done: OnDone) -> None:
        """Write what was decided. Until it is committed nothing else is; when it fails all is as it was before."""
        if decided is found.metadata:
            on_done(None)
        elif home.log.commits_at_once:
            self._write_at_once(home, found, decided, on_done)
        else:
            self._write_and_wait(home, found, decided, on_done)

    def _write_at_once(self, home: Home, found: TransactionalId, decided: TransactionMetadata, on_done: OnDone) -> None:
        try:
            self.append(home, found, decided)
        except KafkaError as error:
            on_done(error)
            return
        on_done(None)
        if decided.state in ENDING:
            self.write_markers(home, found)

    def append(self, home: Home, found: TransactionalId, decided: TransactionMetadata) -> None:
        """Where an append is a commit. KafkaError for the client when it fails."""
        record = _new(TransactionRecord, (decided.transactional_id, decided))
        found.pending = None
        try:
            home.log.append_at_once((encode(record),))
        except KafkaError as error:
            _forget_if_new(home, found)
            raise told(error) from error
        home.shard.replay(record)

    def _write_and_wait(
        self, home: Home, found: TransactionalId, decided: TransactionMetadata, on_done: OnDone
    ) -> None:
        record = TransactionRecord(decided.transactional_id, decided)
        found.pending = decided.state

        def on_committed(error: KafkaError | None) -> None:
            found.pending = None
            if error is not None:
                _forget_if_new(home, found)
                on_done(told(error))
                return
            home.shard.replay(record)
            on_done(None)
            if decided.state in ENDING:
                self.write_markers(home, found)

        home.log.append((encode(record),), on_committed)

    def write_markers(self, home: Home, found: TransactionalId) -> None:
        """Of a transaction whose end is decided; then the record that it is over."""
        prepared = found.metadata
        completed = steps.complete(prepared, self._clock.now_ms())
        found.pending = completed.state
        marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            home.coordinator_epoch,
            prepared.state is PREPARE_COMMIT,
            prepared.client_version,
        )
        if home.log.commits_at_once and self._is_ours(home):
            self._markers.write_at_once(found.unmarked, marker)
            if not found.unmarked:
                self._complete_at_once(home, found, completed)
                return
        self._markers.write_until_done(
            found.unmarked, marker, lambda: self._is_ours(home), lambda: self._complete(home, found, completed)
        )

    def _complete_at_once(self, home: Home, found: TransactionalId, completed: TransactionMetadata) -> None:
        try:
            self.append(home, found, completed)
        except KafkaError as error:
            self._complete_later(home, found, completed, error)

    def _complete(
        self, home: Home, found: TransactionalId, completed: TransactionMetadata, is_again: bool = False
    ) -> None:
        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                self._complete_later(home, found, completed, error, is_again)

        if self._is_ours(home):
            self.write(home, found, completed, on_done)

    def _complete_later(
        self,
        home: Home,
        found: TransactionalId,
        completed: TransactionMetadata,
        error: KafkaError,
        is_again: bool = False,
    ) -> None:
        """It is tried on and on, and said once."""
        if self._is_ours(home):
            found.pending = completed.state
            if not is_again:
                logger.error("the end of a transaction of %s: %s", shown(completed.transactional_id), error.message)
            self._loop.call_later(RETRY_S, lambda: self._complete(home, found, completed, is_again=True))


def _forget_if_new(home: Home, found: TransactionalId) -> None:
    """An id of which nothing is in the log."""
    if found.metadata.producer_epoch == NO_PRODUCER_EPOCH:
        home.shard.ids.pop(found.metadata.transactional_id, None)
