"""The `penstock` command. A command's module is loaded only when it is used, so that each starts at once."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from penstock.errors import ConfigError, KafkaError

COMMANDS = {
    "serve": "Run a broker.",
    "topic": "Create, list, describe, change and delete topics.",
    "produce": "Send messages to a topic, from standard input or a file.",
    "consume": "Read messages of a topic.",
    "group": "List, describe and delete consumer groups, and set their offsets.",
    "txn": "List and describe transactions, and abort one.",
    "pipeline": "Run pipelines on Spark: topics into lakes, tables and topics, and back.",
    "log": "Look into the files of a broker.",
    "version": "Show the version.",
}

DEBUG_VARIABLE = "PENSTOCK_DEBUG"
"""Set to anything: where a failure that is our own came from is shown too."""


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

    PENSTOCK_DEBUG=1 adds a traceback to failures that should not be.

    Shell completion: eval "$(_PENSTOCK_COMPLETE=bash_source penstock)" (or zsh_source, fish_source).
    """


def main() -> None:
    """Run the command; what went wrong is a sentence, not a traceback."""
    try:
        penstock(prog_name="penstock")
    except Exception as error:
        if _shows_traceback(error):
            traceback.print_exc()
        click.echo(f"penstock: {_sentence(error)}", err=True)
        sys.exit(1)


def _sentence(error: Exception) -> str:
    if isinstance(error, ConfigError | KafkaError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        wrong = error.object[error.start : error.end]
        return f"{wrong!r} in {error.object!r} cannot be written as {error.encoding}."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}."
    said = f"{type(error).__name__}: {error}".removesuffix(".")
    return f"This is a bug in Penstock, please report it. {said}. {DEBUG_VARIABLE}=1 shows where."


def _shows_traceback(error: Exception) -> bool:
    """On request; and always for a bug that ends a broker, because it may not come a second time."""
    if os.environ.get(DEBUG_VARIABLE) or "--verbose" in sys.argv:
        return not isinstance(error, ConfigError | KafkaError)
    return sys.argv[1:2] == ["serve"] and not isinstance(error, ConfigError | KafkaError | OSError)


if __name__ == "__main__":
    main()
