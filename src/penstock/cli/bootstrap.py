"""What every command that talks to a broker has: --bootstrap and --json, and names for shell completion."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli.patience import Patience
from penstock.client.admin import Admin
from penstock.client.cluster import DEFAULT_TIMEOUT_MS, Cluster
from penstock.client.groups import Groups
from penstock.errors import ConfigError, KafkaError

DEFAULT = "127.0.0.1:9092"
ENVIRONMENT_VARIABLE = "PENSTOCK_BOOTSTRAP"

COMPLETION_TIMEOUT_MS = 800
"""Someone has pressed the tab key and waits."""

F = TypeVar("F", bound=Callable[..., Any])

bootstrap_option = click.option(
    "--bootstrap",
    "-b",
    metavar="HOST:PORT",
    default=DEFAULT,
    envvar=ENVIRONMENT_VARIABLE,
    show_default=True,
    show_envvar=True,
    help="A broker of the cluster, or some with commas between.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


TIMEOUT_SECONDS = click.IntRange(1, 2_147_483)
"""For --timeout. Kafka counts in milliseconds, as int32."""


def connect(bootstrap: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> Cluster:
    """A cluster to talk to; nothing is sent before the first request."""
    return Cluster(bootstrap, client_id="penstock-cli", timeout_ms=timeout_ms, watcher=Patience())


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of topics that begin so; none when the broker does not answer at once."""
    is_internal = incomplete.startswith("_")
    return _complete(
        ctx, incomplete, lambda cluster: [each.name for each in Admin(cluster).list_topics(internal=is_internal)]
    )


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of groups that begin so."""
    return _complete(ctx, incomplete, lambda cluster: [each.name for each in Groups(cluster).list_groups()])


def _complete(ctx: click.Context, incomplete: str, names: Callable[[Cluster], list[str]]) -> list[str]:
    bootstrap = ctx.params.get("bootstrap") or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT
    try:
        with Cluster(bootstrap, client_id="penstock-cli", timeout_ms=COMPLETION_TIMEOUT_MS) as cluster:
            return [name for name in names(cluster) if name.startswith(incomplete)]
    except (KafkaError, ConfigError):
        return []


def parse_settings(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """`key=value` pairs as a dict; a usage error when one is not a pair."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not key=value.", param_hint=option)
        settings[name] = value
    return settings
