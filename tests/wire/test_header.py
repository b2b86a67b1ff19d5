"""Headers: the same bytes both ways, tags skipped, everything else refused."""

from __future__ import annotations

import pytest

from penstock.errors import MalformedError
from penstock.wire.header import (
    append_request_header,
    read_api,
    read_request_header,
    read_response_header,
    response_has_tags,
)

TAGS = bytes([2, 0, 1, 0xAA, 7, 0])
"""Two tags: number 0 with one byte, number 7 with none."""


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "Füllmaß"])
@pytest.mark.parametrize("is_flexible", [False, True])
def test_a_request_header_reads_back(client_id, is_flexible):
    out = bytearray(b"before")
    append_request_header(out, 3, 12, 77, client_id, is_flexible)
    assert read_api(out, 6) == (3, 12)
    assert read_request_header(out, 6, is_flexible) == (77, client_id, len(out))
    assert read_request_header(memoryview(out), 6, is_flexible) == (77, client_id, len(out))


def test_a_request_header_has_kafkas_bytes():
    plain, flexible = bytearray(), bytearray()
    append_request_header(plain, 0, 7, 3, "ab", False)
    append_request_header(flexible, 18, 3, 3, None, True)
    assert plain.hex(" ", 2) == "0000 0007 0000 0003 0002 6162"
    assert flexible.hex() == "0012000300000003ffff00"


def test_tags_of_a_request_header_are_skipped():
    out = bytearray()
    append_request_header(out, 0, 9, 1, "c", True)
    out[-1:] = TAGS
    assert read_request_header(bytes(out) + b"body", 0, True) == (1, "c", len(out))


def test_a_request_header_cut_short_anywhere_is_malformed():
    out = bytearray()
    append_request_header(out, 0, 9, 1, "client", True)
    out[-1:] = TAGS
    for size in range(len(out)):
        with pytest.raises(MalformedError):
            read_request_header(out[:size], 0, True)
    for size in range(10):
        with pytest.raises(MalformedError):
            read_api(out[:size])


def test_a_client_id_that_is_not_utf_8_is_malformed():
    out = bytearray()
    append_request_header(out, 0, 9, 1, "client", False)
    out[-1] = 0xFF
    with pytest.raises(MalformedError):
        read_request_header(out, 0, False)


@pytest.mark.parametrize(("data", "has_tags"), [(b"\xff\xff\xff\xfb", False), (b"\xff\xff\xff\xfb\x00", True)])
def test_a_response_header_is_read(data, has_tags):
    assert read_response_header(data + b"body", 0, has_tags) == (-5, len(data))


def test_tags_of_a_response_header_are_skipped_and_bounded():
    whole = bytes(4) + TAGS
    assert read_response_header(whole + b"body", 0, True) == (0, len(whole))
    for size in range(len(whole)):
        with pytest.raises(MalformedError):
            read_response_header(whole[:size], 0, True)
    with pytest.raises(MalformedError):
        read_response_header(bytes(4) + b"\xff\xff\xff\xff\x0f", 0, True)


def test_only_the_response_to_api_versions_never_has_tags():
    assert response_has_tags(0, True)
    assert not response_has_tags(0, False)
    assert not response_has_tags(18, True)
