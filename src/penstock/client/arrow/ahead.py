"""Fetches while somebody else decodes: a thread with a bounded stock of what was fetched.

    with Ahead(produce, size_of) as ahead:
        for item in ahead: ...

`produce` is a generator that runs and is closed in the thread; its items come out here in order, and its error after
them. The thread stops when the stock is large enough and goes on when it was used. Leaving the `with` ends it, also in
the middle: it notices between two items, so an item must not take for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """A bounded queue and the thread that fills it."""

    def __init__(self, produce: Generator[T, None, None], size_of: Callable[[T], int], max_bytes: int) -> None:
        self._produce = produce
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._stock: deque[T] = deque()
        self._stock_bytes = 0
        self._is_over = False
        self._is_stopped = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-fetch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stock or self._is_over)
                if not self._stock:
                    break
                item = self._stock.popleft()
                self._stock_bytes -= self._size_of(item)
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for item in self._produce:
                if not self._add(item):
                    self._produce.close()
                    break
        except BaseException as error:  # it is the reader's: raised where the items are taken
            self._error = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _add(self, item: T) -> bool:
        """False when nobody wants more. One item always has room, however large it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._stock_bytes < self._max_bytes)
            if self._is_stopped:
                return False
            self._stock.append(item)
            self._stock_bytes += self._size_of(item)
            self._changed.notify_all()
            return True
