"""`penstock log`: look into the files of a broker, ours or Kafka's, without the broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.cli.bootstrap import json_option
from penstock.cli.dump_entry import Entry, Problem
from penstock.cli.dump_index import dump_offset_index, dump_time_index, dump_txn_index
from penstock.cli.dump_segment import dump_segment
from penstock.cli.dump_state import CHECKPOINTS, dump_checkpoint, dump_partition_metadata, dump_snapshot
from penstock.cli.output import note, plural
from penstock.errors import ConfigError

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
METADATA = "partition.metadata"


@click.group("log")
def command() -> None:
    """Look into the files of a broker."""


@command.command("dump")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, path_type=Path))
@click.option("--records", "with_records", is_flag=True, help="Also the records of each batch.")
@click.option("--check", is_flag=True, help="Read every record, and hold the indexes against the log.")
@json_option
def dump(paths: tuple[Path, ...], with_records: bool, check: bool, as_json: bool) -> None:
    """Show what is in segments, indexes, snapshots and checkpoints; of a directory, in all of its files.

    Works on the files of Penstock and of Apache Kafka, also while a broker writes them; it changes nothing. Checksums
    are verified always. The exit status is 1 when something is wrong. --json prints one object on each line.

    \b
      penstock log dump data/orders-0
      penstock log dump data/orders-0/00000000000000000000.log --records
    """
    problems = 0
    files = [file for path in paths for file in _files(path)]
    for number, path in enumerate(files):
        if not as_json:
            click.secho(f"{'' if number == 0 else chr(10)}{path}", bold=True)
        for found in _readable(_dump(path, with_records, check)):
            if isinstance(found, Problem):
                problems += 1
            _show(path, found, as_json)
    if check and not problems and not as_json:
        note(f"Nothing is wrong with {plural(len(files), 'file')}.")
    if problems:
        note(f"{plural(problems, 'problem')} in {plural(len(files), 'file')}.")
        sys.exit(1)


def _files(path: Path) -> list[Path]:
    """The file itself, or the files of a directory that can be shown: a log's own, or a log directory's checkpoints."""
    if not path.is_dir():
        if not _is_known(path):
            known = ", ".join([*(f"*{suffix}" for suffix in SUFFIXES), METADATA, *CHECKPOINTS])
            raise ConfigError(f"{path} is no file of a log. There are {known}, and directories of them.")
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file() and _is_known(file))
    if not found:
        raise ConfigError(f"{path} holds no files of a log. A partition's directory is named like orders-0.")
    return found


def _is_known(path: Path) -> bool:
    is_segment_file = path.suffix in SUFFIXES and path.stem.isascii() and path.stem.isdigit()
    return is_segment_file or path.name == METADATA or path.name in CHECKPOINTS


def _dump(path: Path, with_records: bool, check: bool) -> Iterator[Entry | Problem]:
    text = str(path)
    if path.name == METADATA:
        return dump_partition_metadata(text)
    if path.name in CHECKPOINTS:
        return dump_checkpoint(text)
    if path.suffix == ".snapshot":
        return dump_snapshot(text)
    if path.suffix == ".txnindex":
        return dump_txn_index(text)
    base_offset = int(path.stem)
    if path.suffix == ".index":
        return dump_offset_index(text, base_offset, check=check)
    if path.suffix == ".timeindex":
        return dump_time_index(text, base_offset, check=check)
    return dump_segment(text, base_offset, with_records=with_records, check=check)


def _readable(found: Iterator[Entry | Problem]) -> Iterator[Entry | Problem]:
    """A file that cannot be read, or is gone since it was listed, is one more thing that is wrong."""
    try:
        yield from found
    except OSError as error:
        yield Problem(f"it cannot be read: {error.strerror}.")


def _show(path: Path, found: Entry | Problem, as_json: bool) -> None:
    if as_json:
        kind, fields = (found.kind, found.fields) if isinstance(found, Entry) else ("problem", {"text": found.text})
        click.echo(json.dumps({"file": str(path), "type": kind, **fields}))
    elif isinstance(found, Entry):
        click.echo(found.text)
    else:
        click.secho(f"WRONG: {found.text}", fg="red")
