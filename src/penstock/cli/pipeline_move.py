"""`penstock pipeline move-group`: let a group go on in a mirror's copy, where it was in the original."""

from __future__ import annotations

import click

from penstock.cli.bootstrap import connect, json_option
from penstock.cli.output import note, show_json, show_table
from penstock.client.groups import Groups
from penstock.errors import ConfigError
from penstock.spark.pipelines.offset_map import read_offset_map, translate
from penstock.types import TopicPartition

MAP_TOPIC = "penstock-offset-map"


@click.command("move-group")
@click.argument("group")
@click.option("--from", "source", required=True, metavar="HOST:PORT", help="A broker of the mirror's source.")
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="A broker of its target.")
@click.option("--map", "map_topic", default=MAP_TOPIC, show_default=True, help="The map's topic in the target.")
@click.option("--execute", is_flag=True, help="Commit the offsets; without it they are only shown.")
@json_option
def move_group(group: str, source: str, target: str, map_topic: str, execute: bool, as_json: bool) -> None:
    """Commit a group's offsets in a mirror's target, translated by the mirror's map. A dry run unless --execute.

    The group misses nothing there; where the original has holes it may see a few messages twice."""
    with connect(source) as cluster:
        committed = Groups(cluster).committed(group)
    if not committed:
        raise ConfigError(f"Group {group!r} has committed nothing at {source}.")
    new = _translated(committed, target, map_topic)
    unknown = sorted(set(committed) - set(new))
    if execute and new:
        with connect(target) as cluster:
            Groups(cluster).commit(group, new)
    if as_json:
        moved = [
            {"topic": where.topic, "partition": where.partition, "committed_offset": committed[where], "new_offset": at}
            for where, at in sorted(new.items())
        ]
        show_json(
            {"group": group, "executed": execute, "moved": moved, "not_mirrored": [str(each) for each in unknown]}
        )
        return
    rows = [(*where, committed[where], offset) for where, offset in sorted(new.items())]
    show_table(
        ("topic", "partition", "committed", "new"), rows, numbers=("partition", "committed", "new"), has_head=True
    )
    for where in unknown:
        note(f"{where} is not in the map {map_topic}: not moved.")
    if not execute:
        note("Nothing was changed: --execute commits these offsets.")


def _translated(committed: dict[TopicPartition, int], target: str, map_topic: str) -> dict[TopicPartition, int]:
    from penstock.client.arrow.functions import read

    table = read(map_topic, bootstrap=target, columns=["key", "value"]).read_all()
    known = read_offset_map(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    found = {where: translate(known[where], offset) for where, offset in committed.items() if where in known}
    return {where: 0 if offset is None else offset for where, offset in found.items()}
