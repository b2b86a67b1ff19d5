"""How results are shown: tables on a terminal, plain columns when piped, JSON when asked for.

Rules:
- results go to standard output, everything else (progress, what was done where) to standard error;
- in a pipe a table is its rows, columns separated by tabs, with no colours and no borders, and with a head only where
  other lines stand around it anyway;
- whatever comes from a topic may hold anything: `escape_control` shows control characters instead of obeying them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=not _is_utf8()))


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = (), has_head: bool = False
) -> None:
    """A table; the columns named in `numbers` stand right-aligned. `has_head`: in a pipe too."""
    if not sys.stdout.isatty():
        for row in [columns, *rows] if has_head else rows:
            click.echo("\t".join(map(str, row)))
        return
    from rich import box  # slow to import, and a pipe has no use for it
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*(escape_control(str(cell)).replace("[", "\\[") for cell in row))
    Console().print(table)


def note(text: str) -> None:
    """For the person who watches, not for the pipe."""
    click.echo(text, err=True)


def human_bytes(size: int) -> str:
    """1536 -> "1.5 KiB"."""
    value = float(size)
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes whatever is left")


def plural(count: int, noun: str) -> str:
    """1 -> "1 message", 2 -> "2 messages"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def escape_control(text: str) -> str:
    """Control characters as \\xNN, line breaks and tabs among them: a message must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


class Progress(Protocol):
    def advance(self, amount: int) -> None: ...


class _Silent:
    def advance(self, amount: int) -> None:
        pass


@contextmanager
def progress(label: str, total: int, *, is_bytes: bool = False, is_shown: bool = True) -> Iterator[Progress]:
    """A bar on standard error while long work goes on; nothing where nobody watches."""
    if not (is_shown and sys.stderr.isatty()):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    count = DownloadColumn() if is_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)

        class Advancing:
            def advance(self, amount: int) -> None:
                bar.advance(task, amount)

        yield Advancing()


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
