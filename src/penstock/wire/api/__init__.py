"""Every API that Penstock speaks, one file each: its messages, its versions, and what each version changed.

A file declares its messages and ends with `API = Api(key, Request, Response)`. `load` imports one by its key, so that
a start pays only for what it uses.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import cache

from penstock.wire.schema import Struct, Versions, layout_of

MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    60: "describe_cluster",
    61: "describe_producers",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
}
"""API key -> the module here that declares it; `broker/handlers` has one of the same name for each advertised."""


@dataclass(frozen=True, slots=True)
class Api:
    """One request and its response."""

    key: int
    request: type[Struct]
    response: type[Struct]
    latest_is_unstable: bool = False
    """Kafka declares the newest version but does not advertise it yet."""
    newest: int | None = None
    """The newest version that is used, where a newer one would mean something else."""

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> Versions:
        """The versions that a broker accepts."""
        declared = layout_of(self.request).versions
        high = declared.high - self.latest_is_unstable
        return Versions(declared.low, high if self.newest is None else min(high, self.newest))

    def up_to(self, version: int) -> Api:
        """The same API without its versions above this one."""
        return replace(self, newest=version)


@cache
def load(key: int) -> Api:
    """The API with this key; KeyError when Penstock does not speak it."""
    module = importlib.import_module(f"{__name__}.{MODULES[key]}")
    api: Api = module.API
    assert api.key == key, f"{module.__name__} declares key {api.key}, not {key}"
    return api
