"""What went wrong inside Spark, as one sentence.

An error of ours that is raised in a Python worker comes back inside Spark's own, with the worker's traceback and the
JVM's around it. The sentence at its heart is what a person needs.
"""

from __future__ import annotations

import re

_OURS = re.compile(r"^penstock(?:\.\w+)+: (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^\w+(?:\.\w+)*(?:Error|Exception): (.+)$", re.MULTILINE)
_SPARK = re.compile(r"\[([A-Z_.]+)\] (.+)")
MAX_CHARACTERS = 500


def reason(error: BaseException) -> str:
    """The innermost sentence; at most MAX_CHARACTERS of it."""
    text = str(error)
    for pattern in (_OURS, _PYTHON):
        found = pattern.findall(text)
        if found:
            return _cut(str(found[-1]))
    spark = _SPARK.search(text)
    return _cut(spark[2] if spark else (text.splitlines() or [type(error).__name__])[0])


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
