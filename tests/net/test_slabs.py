"""Memory that is used again: never while anybody looks at it, and not more of it than was agreed."""

from __future__ import annotations

import gc
import threading

import pyarrow as pa

from penstock.net.slabs import ALIGNMENT, MAX_FREE_SLABS, Slabs


def address_of(view: memoryview) -> int:
    return pa.py_buffer(view).address


def test_a_slab_comes_back_when_its_last_view_is_gone():
    slabs = Slabs(1000)
    first, second = slabs.take(100), slabs.take(200)
    start = address_of(first)
    assert address_of(second) == start + -(-100 // ALIGNMENT) * ALIGNMENT
    held = pa.py_buffer(second[10:20]).slice(2, 3)
    del first, second
    other = slabs.take(900)
    assert address_of(other) != start
    del other
    del held
    gc.collect()
    again = {address_of(slabs.take(900)) for _ in range(4)}
    assert start in again


def test_what_is_in_use_is_not_given_out_twice():
    slabs = Slabs(1 << 12)
    views = [slabs.take(1000) for _ in range(100)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * 1000
    for number, view in enumerate(views):
        assert bytes(view) == bytes([number]) * 1000


def test_large_pieces_and_empty_ones_are_given_too():
    slabs = Slabs(1 << 12)
    large = slabs.take((1 << 12) + 1)
    large[-1] = 1
    assert len(large) == (1 << 12) + 1
    assert len(slabs.take(0)) == 0
    assert len(slabs.take(1 << 12)) == 1 << 12


def test_few_slabs_are_kept_and_they_may_come_back_in_any_thread():
    slabs = Slabs(1 << 12)
    views = [slabs.take(1 << 12) for _ in range(MAX_FREE_SLABS + 5)]
    ending = threading.Thread(target=views.clear)
    ending.start()
    ending.join()
    slabs.take(1 << 12)
    assert len(slabs._free) == MAX_FREE_SLABS
