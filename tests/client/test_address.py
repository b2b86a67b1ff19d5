"""Addresses as people write them."""

from __future__ import annotations

import pytest

from penstock.client.address import Address, parse_bootstrap
from penstock.errors import ConfigError


def test_addresses_are_separated_by_commas_and_each_counts_once() -> None:
    assert parse_bootstrap("a:1, b:2,,a:1") == [Address("a", 1), Address("b", 2)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", Address("localhost", 9092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
        ("fe80::1", Address("fe80::1", 9092)),
    ],
)
def test_a_port_may_be_left_out_and_ipv6_stands_in_brackets(text: str, address: Address) -> None:
    assert parse_bootstrap(text) == [address]
    assert parse_bootstrap(str(address)) == [address]


@pytest.mark.parametrize("text", ["", " , ", ":9092", "host:port", "host:0", "host:65536", "http://host:9092", "a b:1"])
def test_what_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match=r"host:port"):
        parse_bootstrap(text)
