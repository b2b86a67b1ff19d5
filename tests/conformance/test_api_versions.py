"""ApiVersions: what is advertised, and how a client that is too new is told so."""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode as Code

import raw

API_VERSIONS, PRODUCE = 18, 0
SOFTWARE = {"client_software_name": "penstock-tests", "client_software_version": "1.0"}

KAFKA_4_3 = {
    "Produce": (0, 0, 13),
    "Fetch": (1, 4, 18),
    "ListOffsets": (2, 1, 11),
    "Metadata": (3, 0, 13),
    "FindCoordinator": (10, 0, 6),
    "ApiVersions": (18, 0, 4),
    "CreateTopics": (19, 2, 7),
    "DeleteTopics": (20, 1, 6),
    "DeleteRecords": (21, 0, 2),
    "InitProducerId": (22, 0, 5),
    "OffsetForLeaderEpoch": (23, 2, 4),
    "DescribeConfigs": (32, 1, 4),
    "AlterConfigs": (33, 0, 2),
    "DescribeLogDirs": (35, 1, 5),
    "CreatePartitions": (37, 0, 3),
    "IncrementalAlterConfigs": (44, 0, 1),
    "DescribeCluster": (60, 0, 2),
    "ListConfigResources": (74, 0, 1),
    "DescribeTopicPartitions": (75, 0, 0),
}
"""Key, lowest and highest version of the APIs that every broker here must have."""


def request(version: int, body: bytes = b"") -> bytes:
    """An ApiVersions request by hand, for versions that no codec knows; its header is flexible."""
    header = struct.pack(">hhih", API_VERSIONS, version, 1, 1) + b"t\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_same_apis(connection: raw.Connection, version: int) -> None:
    response = connection.call("ApiVersions", version, **(SOFTWARE if version >= 3 else {}))
    listed = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert response.error_code == 0
    assert {name: (key, *listed[key]) for name, (key, _, _) in KAFKA_4_3.items() if key in listed} == KAFKA_4_3


def test_produce_is_advertised_from_version_0(connection: raw.Connection) -> None:
    """Though 0 to 2 are not served: without it, older librdkafka silently stops compressing (KAFKA-18659)."""
    (produce,) = [api for api in connection.call("ApiVersions", 0).api_keys if api.api_key == PRODUCE]
    assert produce.min_version == 0


@pytest.mark.parametrize("version", [5, 9, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0(connection: raw.Connection, version: int) -> None:
    """With the one line that the client needs to ask again (KIP-511), whatever its request held."""
    connection.send_bytes(request(version, b"anything at all"))
    frame = connection.receive_frame()
    correlation_id, code, count, key, lowest, highest = struct.unpack_from(">ihihhh", frame)
    assert (correlation_id, Code(code), count, len(frame)) == (1, Code.unsupported_version, 1, 16)
    assert (key, lowest, highest) == (API_VERSIONS, 0, 4)
    assert connection.call("ApiVersions", 0).error_code == 0


@pytest.mark.parametrize(("name", "version"), [("a b", "1"), ("", ""), ("a", "_1"), ("-a", "1"), ("a-", "1")])
def test_odd_software_names_are_refused(connection: raw.Connection, name: str, version: str) -> None:
    connection.send("ApiVersions", 3, client_software_name=name, client_software_version=version)
    correlation_id, code = struct.unpack_from(">ih", connection.receive_frame())
    assert (correlation_id, Code(code)) == (1, Code.invalid_request)
    assert connection.call("ApiVersions", 3, **SOFTWARE).error_code == 0


def test_it_may_be_asked_for_at_any_time(connection: raw.Connection, topic: str) -> None:
    assert raw.produce(connection, topic, raw.batch([b"v"])).error_code == 0
    assert connection.call("ApiVersions", 4, **SOFTWARE).error_code == 0
    assert raw.produce(connection, topic, raw.batch([b"v"])).base_offset == 1
