"""What `kernel.py` needs of Cython to run as plain Python where Cython is not installed: marks that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

compiled = False
Py_ssize_t = longlong = int


def declare(kind: type, value: T) -> T:
    return value


def _unchanged(thing: T) -> T:
    return thing


cclass = cfunc = final = inline = _unchanged


def exceptval(check: bool) -> Callable[[T], T]:
    return _unchanged


class _NoGil:
    """Both `@nogil` and `with nogil:`."""

    def __call__(self, thing: T) -> T:
        return thing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


nogil = _NoGil()
