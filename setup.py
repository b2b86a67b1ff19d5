"""The one thing that pyproject.toml cannot say: compile the record kernel where that is possible.

`optional=True` lets the install go on when the compiler is missing or fails; `kernel.py` then runs as plain Python.
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
    kernel = Extension(
        "penstock.wire.kernel", ["src/penstock/wire/kernel.py"], extra_compile_args=["-O3"], optional=True
    )
    # build/ and not beside the source: a .c file there would only be in the way.
    modules: list[Extension] = cythonize([kernel], build_dir="build", language_level=3)
    for module in modules:
        module.optional = True  # cythonize makes new objects
    return modules


setup(ext_modules=extensions())
