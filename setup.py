"""The one thing that pyproject.toml cannot say: compile the kernels where that is possible.

`optional=True` lets the install go on when the compiler is missing or fails; they then run as plain Python.
PENSTOCK_PURE=1 leaves the extension out on purpose.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup


def extensions() -> list[Extension]:
    if os.environ.get("PENSTOCK_PURE"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernels = [
        Extension(f"penstock.wire.{name}", [f"src/penstock/wire/{name}.py"], extra_compile_args=["-O3"], optional=True)
        for name in ("kernel", "kernel_keys")
    ]
    # build/ and not beside the source: a .c file there would only be in the way.
    modules: list[Extension] = cythonize(kernels, build_dir="build", language_level=3)
    for module in modules:
        module.optional = True  # cythonize makes new objects
    return modules


setup(ext_modules=extensions())
