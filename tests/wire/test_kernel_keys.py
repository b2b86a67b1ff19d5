"""The key kernel, compiled and as plain Python: the partitions that other clients choose."""

from __future__ import annotations

import array
import sys
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import forms, load_source
from penstock.client.partitioner import consistent_random, murmur2_random
from penstock.wire import kernel_keys as installed_kernel

KERNELS = forms(installed_kernel)

each_kernel = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def buffers(keys: list[bytes | None]) -> tuple[memoryview, memoryview, memoryview | None]:
    validity, offsets, data = pa.array(keys, pa.binary()).buffers()
    bits = None if validity is None else memoryview(validity).cast("B")
    return memoryview(data or b"").cast("B"), memoryview(offsets).cast("B").cast("i"), bits


@each_kernel
@given(keys=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=50), count=st.integers(1, 2**31 - 1))
def test_keys_go_where_other_clients_send_them(kernel: ModuleType, keys: list[bytes | None], count: int) -> None:
    for is_murmur2, choose in ((False, consistent_random), (True, murmur2_random)):
        chosen = array.array("i", [7] * len(keys))
        kernel.choose_partitions(*buffers(keys), count, is_murmur2, chosen)
        expected = [choose(key, count) for key in keys]
        assert list(chosen) == [-1 if partition is None else partition for partition in expected]


def test_columns_that_do_not_fit_are_refused(kernel: ModuleType) -> None:
    data, offsets = memoryview(b"ab"), array.array("i", [0, 1, 2])
    two = array.array("i", [0, 0])
    for column, count, out in (
        ((data, offsets, None), 0, two),
        ((data, offsets, None), 2**31, two),
        ((data, offsets, None), 3, two[:1]),
        ((data, array.array("i"), None), 3, two),
        ((data, offsets, memoryview(b"")), 3, two),
        ((data, array.array("i", [0, 1, 9]), None), 3, two),
        ((data, array.array("i", [-1, 1, 2]), None), 3, two),
        ((data, array.array("i", [2, 1, 2]), None), 3, two),
    ):
        for is_murmur2 in (False, True):
            with pytest.raises(ValueError):
                kernel.choose_partitions(*column, count, is_murmur2, out)


def test_the_source_needs_no_cython_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cython", None)
    chosen = array.array("i", [0])
    load_source("kernel_keys").choose_partitions(*buffers([b"key"]), 10, False, chosen)
    assert chosen[0] == consistent_random(b"key", 10)
