"""Which address of a broker a client is told.

Where `advertised.listeners` says nothing, a broker registers an empty host, and a client is told the address that it
reached this broker at: the one address that is known to work for it, whatever the machine calls itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.metadata.image import Image
from penstock.metadata.records import BrokerRecord
from penstock.net.server_connection import ServerConnection


class Address(NamedTuple):
    host: str
    port: int


NO_ADDRESS = Address("", -1)


def reachable(image: Image, connection: ServerConnection) -> Iterator[tuple[BrokerRecord, Address]]:
    """The brokers that the client can be told of."""
    for broker in image.brokers.values():
        address = advertised(broker, connection)
        if address is not NO_ADDRESS:
            yield broker, address


def advertised(broker: BrokerRecord, connection: ServerConnection) -> Address:
    """The address of `broker` on the listener that the client uses; NO_ADDRESS when it has no such listener."""
    for endpoint in broker.endpoints:
        if endpoint.name == connection.listener_name:
            return Address(endpoint.host or connection.local_address[0], endpoint.port)
    return NO_ADDRESS
