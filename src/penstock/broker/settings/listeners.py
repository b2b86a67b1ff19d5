"""Listeners: what the broker listens on and what clients are told, from `listeners` and its kin.

A listener is written `NAME://HOST:PORT`. The name is free; `listener.security.protocol.map` says which protocol it
means. An empty host and `0.0.0.0` both mean every address; port 0 means any free one. An IPv6 address stands in
brackets.

When `advertised.listeners` says nothing about a listener, or names no host, clients are told the address they connected
to. That works behind any name or port that leads here, which Kafka's way (one fixed name) does not.

A listener in `controller.listener.names` is dropped: it belongs to Kafka's controllers, and Penstock has none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS = ("PLAINTEXT",)
"""Those that Penstock speaks; another one stops the start, because data would travel unprotected that should not."""

FORM = re.compile(r"(?P<name>[A-Za-z0-9_.\-]+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]/]*)):(?P<port>-?\d{1,9})")


@dataclass(frozen=True, slots=True)
class Listener:
    """One address: its name, its protocol, and where."""

    name: str
    protocol: str
    host: str
    """Without brackets; empty means every address, or, when advertised, the one that the client used."""
    port: int

    @property
    def is_loopback(self) -> bool:
        """Only programs on this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: names, in capitals, to protocols."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not separator or not name:
            raise ValueError(f"listener.security.protocol.map must be NAME:PROTOCOL pairs, not {pair!r}.")
        if protocol not in PROTOCOLS:
            raise ValueError(
                f"listener.security.protocol.map has the protocol {protocol!r} for {name}. "
                f"The protocols are {', '.join(PROTOCOLS)}."
            )
        if name in protocols:
            raise ValueError(f"listener.security.protocol.map names {name} twice.")
        protocols[name] = protocol
    return protocols


def opened_listeners(
    members: Iterable[str], protocols: Mapping[str, str], controllers: Collection[str]
) -> tuple[Listener, ...]:
    """The listeners to open; ValueError with a sentence when they make no sense."""
    found = [_listener("listeners", member, protocols) for member in members if _name(member) not in controllers]
    _check_names_differ("listeners", found)
    _check_ports_differ(found)
    for listener in found:
        _check_served(listener)
    if not found:
        raise ValueError("listeners has no address that clients could use. Write listeners=PLAINTEXT://127.0.0.1:9092.")
    return tuple(found)


def advertised_listeners(
    members: Iterable[str], opened: Collection[Listener], controllers: Collection[str]
) -> tuple[Listener, ...]:
    """What clients are told; a subset of the opened listeners by name."""
    protocols = {listener.name: listener.protocol for listener in opened}
    found = []
    for member in members:
        name = _name(member)
        if name in controllers:
            continue
        if name is not None and name not in protocols:
            raise ValueError(
                f"advertised.listeners has {member!r}, but no listener is named {name}. "
                f"The listeners are {', '.join(protocols)}."
            )
        found.append(_listener("advertised.listeners", member, protocols))
    _check_names_differ("advertised.listeners", found)
    for listener in found:
        if listener.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
            raise ValueError(
                f"advertised.listeners tells clients to connect to {listener.host}, which is no address of a machine. "
                "Write a name or address that clients can reach, or leave advertised.listeners out."
            )
    return tuple(found)


def _name(member: str) -> str | None:
    name, separator, _ = member.partition("://")
    return name.strip().upper() if separator else None


def _listener(setting: str, member: str, protocols: Mapping[str, str]) -> Listener:
    match = FORM.fullmatch(member.strip())
    if not match:
        raise ValueError(f"{setting} has {member!r}. Write NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092.")
    name, port = match["name"].upper(), int(match["port"])
    if not 0 <= port <= 65535:
        raise ValueError(f"{setting} has the port {port} in {member!r}; a port is between 0 and 65535.")
    if name not in protocols:
        raise ValueError(
            f"{setting} has the listener {name}, and listener.security.protocol.map does not say which protocol "
            f"that is. Add {name}:PLAINTEXT to it."
        )
    return Listener(name, protocols[name], _host(setting, member, match), port)


def _host(setting: str, member: str, match: re.Match[str]) -> str:
    if match["v6"] is None:
        return match["host"]
    try:
        return str(ipaddress.IPv6Address(match["v6"]))
    except ValueError:
        raise ValueError(f"{setting} has {member!r}, and {match['v6']!r} is no IPv6 address.") from None


def _check_names_differ(setting: str, found: Iterable[Listener]) -> None:
    seen: set[str] = set()
    for listener in found:
        if listener.name in seen:
            raise ValueError(
                f"{setting} has two listeners named {listener.name}. Give one another name, "
                "and say in listener.security.protocol.map what it is."
            )
        seen.add(listener.name)


def _check_ports_differ(found: Iterable[Listener]) -> None:
    """Two listeners may share a port only as an IPv4 and an IPv6 address, as in Kafka."""
    taken: dict[int, list[Listener]] = {}
    for listener in found:
        others = taken.setdefault(listener.port, [])
        if listener.port and others and (len(others) > 1 or {_family(listener), _family(others[0])} != {4, 6}):
            raise ValueError(f"listeners has port {listener.port} twice, in {others[0]} and in {listener}.")
        others.append(listener)


def _family(listener: Listener) -> int:
    try:
        return ipaddress.ip_address(listener.host).version
    except ValueError:
        return 0


def _check_served(listener: Listener) -> None:
    if listener.protocol not in SERVED_PROTOCOLS:
        raise ValueError(
            f"listeners has {listener} with the protocol {listener.protocol}, which Penstock does not speak yet. "
            f"So far it speaks {', '.join(SERVED_PROTOCOLS)}."
        )
