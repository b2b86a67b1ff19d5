"""`penstock version`: what is installed, and whether the fast parts are in use."""

from __future__ import annotations

import json
import platform

import click

import penstock


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Show the version."""
    from penstock.wire import kernel

    facts = {
        "penstock": penstock.__version__,
        "python": platform.python_version(),
        "kernel": "compiled" if kernel.__file__.endswith(".so") else "plain Python",
    }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo(f"penstock {facts['penstock']} (Python {facts['python']}, record kernel: {facts['kernel']})")
