"""The client's machine: versions agreed on, answers matched to requests, a broker that misbehaves refused."""

from __future__ import annotations

import pytest

from penstock.errors import ErrorCode, KafkaError, MalformedError
from penstock.wire import connection as machine
from penstock.wire import header
from penstock.wire.api import MODULES, api_versions, fetch, init_producer_id, load, metadata, produce
from penstock.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from penstock.wire.api.metadata import MetadataRequest, MetadataResponse
from penstock.wire.connection import Connection
from penstock.wire.frame import encode_response

EVERYTHING = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=load(key).versions.low, max_version=load(key).versions.high)
        for key in MODULES
    ]
)


def request_in(data):
    """(API key, version, correlation id, client id) of a request."""
    key, version = header.read_api(data, 4)
    correlation_id, client_id, _ = header.read_request_header(data, 4, False)
    return key, version, correlation_id, client_id


def answer(api, version, correlation_id, message):
    return encode_response(api, version, correlation_id, message)[0]


def ready_connection(response=EVERYTHING):
    connection = Connection("me")
    connection.handshake()
    connection.receive(answer(api_versions.API, 4, 0, response))
    assert connection.is_ready
    return connection


def test_the_handshake_asks_with_the_newest_version():
    connection = Connection("me")
    assert request_in(connection.handshake()) == (18, 4, 0, "me")
    assert not connection.is_ready
    (got,) = connection.receive(answer(api_versions.API, 4, 0, EVERYTHING))
    assert connection.is_ready
    assert got.message == EVERYTHING


def test_a_broker_that_refuses_the_newest_handshake_is_asked_again():
    connection = Connection("me")
    connection.handshake()
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    connection.receive(answer(api_versions.API, 0, 0, refusal))
    assert not connection.is_ready
    assert request_in(connection.handshake()) == (18, 2, 1, "me")
    connection.receive(answer(api_versions.API, 2, 1, EVERYTHING))
    assert connection.is_ready


def test_a_broker_that_refuses_without_a_list_is_asked_with_version_0():
    connection = Connection(None)
    connection.handshake()
    connection.receive(answer(api_versions.API, 0, 0, ApiVersionsResponse(error_code=35)))
    assert request_in(connection.handshake()) == (18, 0, 1, None)


def test_a_broker_that_refuses_twice_is_given_up():
    connection = Connection("me")
    connection.handshake()
    refusal = answer(api_versions.API, 0, 0, ApiVersionsResponse(error_code=35))
    connection.receive(refusal)
    connection.handshake()
    with pytest.raises(MalformedError, match="error 35"):
        connection.receive(answer(api_versions.API, 0, 1, ApiVersionsResponse(error_code=35)))


def test_the_highest_common_version_is_used():
    old = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=0, min_version=0, max_version=7),
            ApiVersion(api_key=1, min_version=4, max_version=99),
            ApiVersion(api_key=3, min_version=14, max_version=15),
        ]
    )
    connection = ready_connection(old)
    assert connection.version_of(produce.API) == 7
    assert connection.version_of(fetch.API) == 18
    with pytest.raises(KafkaError, match="no version of Metadata in common") as caught:
        connection.send(metadata.API, MetadataRequest())
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="does not serve InitProducerId"):
        connection.send(init_producer_id.API, init_producer_id.InitProducerIdRequest())


def test_a_version_that_kafka_does_not_advertise_is_not_used():
    newest = ApiVersionsResponse(api_keys=[ApiVersion(api_key=22, min_version=0, max_version=6)])
    assert ready_connection(newest).version_of(init_producer_id.API) == 5


def test_answers_come_back_with_their_requests():
    connection = ready_connection()
    for number in range(3):
        assert request_in(connection.send(metadata.API, MetadataRequest())) == (3, 13, number + 1, "me")
    assert connection.in_flight == 3
    stream = b"".join(
        answer(metadata.API, 13, number + 1, MetadataResponse(controller_id=number)) for number in range(3)
    )
    got = connection.receive(stream[:30]) + connection.receive(stream[30:])
    assert [(one.correlation_id, one.message.controller_id) for one in got] == [(1, 0), (2, 1), (3, 2)]
    assert connection.in_flight == 0


def test_a_request_without_an_answer_does_not_wait_for_one():
    connection = ready_connection()
    connection.send(produce.API, produce.ProduceRequest(acks=0), expects_answer=False)
    connection.send(metadata.API, MetadataRequest())
    (got,) = connection.receive(answer(metadata.API, 13, 2, MetadataResponse()))
    assert got.api is metadata.API


def test_a_wrong_correlation_id_is_refused():
    connection = ready_connection()
    connection.send(metadata.API, MetadataRequest())
    with pytest.raises(MalformedError, match="answered request 7"):
        connection.receive(answer(metadata.API, 13, 7, MetadataResponse()))


def test_a_response_that_nobody_asked_for_is_refused():
    with pytest.raises(MalformedError, match="nobody asked"):
        Connection("me").receive(answer(metadata.API, 13, 0, MetadataResponse()))


def test_a_response_over_the_limit_is_refused_by_its_size_alone():
    connection = Connection("me", max_response_bytes=100)
    connection.handshake()
    with pytest.raises(MalformedError, match="101"):
        connection.receive((101).to_bytes(4, "big"))


def test_correlation_ids_start_over_after_the_last():
    connection = ready_connection()
    connection._next_id = 2**31 - 1
    assert request_in(connection.send(metadata.API, MetadataRequest()))[2] == 2**31 - 1
    assert request_in(connection.send(metadata.API, MetadataRequest()))[2] == 0


def test_requests_in_flight_are_bounded():
    connection = ready_connection()
    for _ in range(machine.MAX_IN_FLIGHT):
        connection.send(metadata.API, MetadataRequest())
    with pytest.raises(AssertionError):
        connection.send(metadata.API, MetadataRequest())
