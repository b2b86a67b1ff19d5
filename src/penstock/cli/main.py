"""The `penstock` command. A command's module is loaded only when it is used, so that each starts at once."""

from __future__ import annotations

import importlib
import os
import sys

import click

from penstock.errors import ConfigError, KafkaError

COMMANDS = {
    "serve": "Run a broker.",
    "topic": "Create, list, describe, change and delete topics.",
    "produce": "Send messages to a topic, from standard input or a file.",
    "consume": "Read messages of a topic.",
    "group": "List, describe and delete consumer groups, and set their offsets.",
    "log": "Look into the files of a broker.",
    "version": "Show the version.",
}


class _Commands(click.Group):
    """The commands by name; their files are imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"penstock.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Ctrl-C ends a command without a word; a reader that has gone (`| head`) is no failure."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(130)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python flushes at exit goes nowhere
            sys.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for --help, from the table: nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def penstock() -> None:
    """Penstock: Kafka's log, protocol and file formats in Python.

    Start a broker with `penstock serve`, then use any Kafka client, or the commands below.

    Shell completion: eval "$(_PENSTOCK_COMPLETE=bash_source penstock)" (or zsh_source, fish_source).
    """


def main() -> None:
    """Run the command; what went wrong is a sentence, not a traceback."""
    try:
        penstock(prog_name="penstock")
    except (ConfigError, KafkaError) as error:
        click.echo(f"penstock: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
