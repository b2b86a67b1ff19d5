"""Memory that is used again."""

from __future__ import annotations

from penstock.net.slabs import ALIGNMENT, Slabs


def test_pieces_are_writable_and_do_not_overlap() -> None:
    slabs = Slabs(4096)
    taken = [slabs.take(size) for size in (0, 1, 100, 0, 4096, 5000)]
    for number, view in enumerate(taken):
        assert not view.readonly
        view[:] = bytes([number]) * len(view)
    assert [set(view) for view in taken] == [set(), {1}, {2}, set(), {4}, {5}]


def test_a_slab_comes_back_when_nobody_looks_at_it() -> None:
    slabs = Slabs(ALIGNMENT)
    first = slabs.take(ALIGNMENT)
    first[0] = 7
    del first
    kept = slabs.take(ALIGNMENT)  # another slab: the first was still the open one
    assert slabs.take(ALIGNMENT)[0] == 7
    del kept
