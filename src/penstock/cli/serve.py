"""`penstock serve`: run a broker until it is told to stop.

The banner says where it listens, where its data is, what an acknowledgement means and what to try next. When clients
can connect, one line `ready` goes to standard error. SIGTERM and SIGINT stop it cleanly; a second one at once. A broker
that lost its metadata stops by itself and says so. Exit status: 0 when it was asked to stop, else 1.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import resource
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.cli.invocation import typed_command
from penstock.client.address import DEFAULT_PORT, Address

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.config import BrokerConfig

log = logging.getLogger(__name__)

REPEAT_S = 1.0
"""A shell or `make` passes a signal on: the same one again within this time is not a second wish."""

DURABILITY = {
    "os": "an acknowledged message is with the operating system: it survives kill -9, not a power cut (as in Kafka)",
    "interval": "acknowledged messages are forced to disk every {interval} ms",
    "fsync": "an acknowledged message is on disk",
}


@click.command("serve")
@click.option("--config", "config_path", type=click.Path(dir_okay=False), help="Kafka's server.properties.")
@click.option("--listen", metavar="HOST:PORT", help="Where clients connect.  [default: 127.0.0.1:9092]")
@click.option(
    "--data", metavar="DIR[,DIR...]",
    help="Where topics are kept; several directories, with commas between, share them.  "
    "[default: ~/.local/share/penstock]",
)  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any Kafka setting; may be repeated.")
@click.option("--quiet", is_flag=True, help="No banner.")
@click.option("--verbose", is_flag=True, help="Log more.")
def command(
    config_path: str | None, listen: str | None, data: str | None, settings: tuple[str, ...], quiet: bool, verbose: bool
) -> None:
    """Run a broker.

    Settings come from the command line, then PENSTOCK_* environment variables (log.retention.ms is
    PENSTOCK_LOG_RETENTION_MS), then the file, then Kafka's defaults.
    """
    from penstock.broker.config import BrokerConfig

    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    _raise_open_file_limit()
    path = Path(config_path) if config_path else None
    config = BrokerConfig.load(path, os.environ, _overrides(listen, data, settings))
    _run(_serve(config, quiet))


def _overrides(listen: str | None, data: str | None, settings: tuple[str, ...]) -> list[str]:
    """The command line as `key=value`; --listen and --data are short for two of them."""
    overrides = list(settings)
    if listen is not None:
        overrides.append(_short(settings, "--listen", "listeners", f"PLAINTEXT://{listen}"))
    if data is not None:
        overrides.append(_short(settings, "--data", "log.dirs", ",".join(map(_directory, data.split(",")))))
    return overrides


def _short(settings: tuple[str, ...], option: str, name: str, value: str) -> str:
    """The setting that an option is short for; a usage error when --set says something else."""
    for setting in settings:
        key, _, other = setting.partition("=")
        if key.strip() == name and other.strip() != value:
            raise click.UsageError(f"{option} means {name}={value}, but --set says {setting}. Give one of them.")
    return f"{name}={value}"


def _directory(text: str) -> str:
    if not text.strip():
        raise click.BadParameter("A directory's name is empty.", param_hint="--data")
    return str(Path(text.strip()).expanduser().absolute())


def _raise_open_file_limit() -> None:
    """As many files as the system lets us: a broker holds some for each partition and one for each client."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(main: Coroutine[Any, Any, None]) -> None:
    """On uvloop where it is installed, else on plain asyncio."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        logging.getLogger(__name__).warning("uvloop is not installed; plain asyncio serves too, but more slowly")
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


async def _serve(config: BrokerConfig, quiet: bool) -> None:
    from penstock.broker.broker import Broker

    broker = Broker(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    asked_at = 0.0

    def on_signal() -> None:
        nonlocal asked_at
        if stopping.is_set():
            if loop.time() - asked_at > REPEAT_S:
                os._exit(130)  # asked twice: at once; the next start recovers
            return
        asked_at = loop.time()
        stopping.set()
        log.info("stopping; ask again to stop at once, and have the logs checked at the next start")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await broker.start()
    if not quiet:
        _show_banner(config, broker.addresses)
    print("ready", file=sys.stderr, flush=True)
    await broker.dispatcher.preload()
    gc.collect()
    gc.freeze()  # what the start made lives as long as the process
    gc.set_threshold(50_000, 20, 50)
    await _run_until_asked(broker, stopping)


async def _run_until_asked(broker: Broker, stopping: asyncio.Event) -> None:
    """Wait until the broker is asked to stop, or has to, and stop it; raises when it had to."""
    waiting = [asyncio.create_task(stopping.wait()), asyncio.create_task(broker.wait_lost())]
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in rest:
        each.cancel()
    await broker.stop()
    log.info("stopped")
    for each in done:
        each.result()


def _show_banner(config: BrokerConfig, addresses: list[tuple[str, str, int]]) -> None:
    where = ", ".join(str(Address(host or "*", port)) for _, host, port in addresses)
    meaning = DURABILITY[config.durability].format(interval=config.get("penstock.durability.interval.ms"))
    lines = [
        f"Penstock {__version__}, broker {config.node_id}",
        f"  listening   {where}",
        f"  data        {', '.join(map(str, config.log_dirs))}",
        f"  durability  {config.durability}: {meaning}",
    ]
    lines += [f"  note        {warning}" for warning in config.warnings]
    unused = config.not_implemented()
    if unused:
        lines.append(f"  note        set but not implemented yet, so without effect: {', '.join(unused)}")
    for reason, names in config.without_meaning().items():
        lines.append(f"  note        set but without meaning here, since {reason}: {', '.join(names)}")
    if not all(listener.is_loopback for listener in config.listeners):
        lines.append(
            "  WARNING     other machines can connect, and nobody has to authenticate: everyone may read and write"
        )
    click.echo("\n".join([*lines, *_tour(addresses[0][1], addresses[0][2])]), err=True)


def _tour(host: str, port: int) -> list[str]:
    """Three commands that work as they stand in another terminal."""
    address = Address(_reachable(host), port)
    at = "" if address == ("127.0.0.1", DEFAULT_PORT) else f" --bootstrap {shlex.quote(str(address))}"
    penstock = typed_command()
    return [
        f"  try         {penstock} topic create hello{at}",
        f"              echo 'it works' | {penstock} produce hello{at}",
        f"              {penstock} consume hello --from-beginning{at}",
    ]


def _reachable(host: str) -> str:
    """Where a client on this machine finds what listens there; "every address" is none to connect to."""
    try:
        address = ipaddress.ip_address(host or "127.0.0.1")
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return str(address)
