"""Where to find a first broker: "host:port,host:port", as every Kafka client writes it.

A port that is left out is 9092. An IPv6 address with a port stands in brackets: [::1]:9092.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import ConfigError

DEFAULT_PORT = 9092
MAX_PORT = 65_535
MAX_PORT_DIGITS = 5


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> list[Address]:
    """The addresses in their order, each once; ConfigError when one is not an address."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ConfigError("No broker is named. Write host:port, for example 127.0.0.1:9092.")
    return list(dict.fromkeys(_parse(part) for part in parts))


def _parse(text: str) -> Address:
    host, port = _split(text)
    if not host or any(c.isspace() or c in "/[]" for c in host):
        raise ConfigError(f"{text!r} is not an address. Write host:port, for example 127.0.0.1:9092.")
    if not (port.isascii() and port.isdigit() and len(port) <= MAX_PORT_DIGITS and 0 < int(port) <= MAX_PORT):
        raise ConfigError(f"{text!r} has no port between 1 and {MAX_PORT}. Write host:port.")
    return Address(host, int(port))


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or str(DEFAULT_PORT)
    if text.count(":") > 1:  # an IPv6 address without brackets has no port
        return text, str(DEFAULT_PORT)
    host, _, port = text.partition(":")
    return host, port or str(DEFAULT_PORT)
