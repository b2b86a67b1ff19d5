"""Mutated frames and batches: nothing comes out but the protocol's own errors, and nothing grows without bound.

Seeds are recorded frames and messages made from the declarations, in every version; each is changed in one to three
places and decoded as the broker, or a client, would. A failure names the seed of the run and shows the frame.

Work is counted, not timed: a message may not hold more objects than its budget, and decoding it may not take more
memory than that many objects are worth.
"""

from __future__ import annotations

import resource
import tracemalloc
from random import Random

import pytest

from messages import OWN_FRAMES, SHARED_FRAMES, any_message, every_message, golden_frames
from penstock.errors import KafkaError, MalformedError
from penstock.wire import api
from penstock.wire.api.produce import ProduceRequest
from penstock.wire.batch_builder import build_batch
from penstock.wire.compile import REQUEST_OBJECT_BUDGET, RESPONSE_OBJECT_BUDGET, codec, encode
from penstock.wire.connection import Connection
from penstock.wire.frame import SIZE_BYTES, FrameReader, encode_request, encode_response
from penstock.wire.header import read_api, read_request_header
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import Codec, check_produce_request, iterate_headers, update_crc
from penstock.wire.schema import Struct

MAX_SEED_BYTES = 4000
MAX_GROWTH_KIB = 64 * 1024
"""How much a whole run may add to the process."""

BYTES_PER_OBJECT = 600
"""More than any declared struct with empty fields takes."""

INTEGERS = [value.to_bytes(4, "big") for value in (0, 1, 0x7F, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1)]
VARINTS = [b"\x00", b"\x01", b"\x7f", b"\xff\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80" * 6]

fast = pytest.param(20_000, id="fast")
slow = pytest.param(1_000_000, id="slow", marks=[pytest.mark.slow, pytest.mark.timeout(1800)])


@pytest.mark.parametrize("count", [fast, slow])
def test_a_broker_meets_nothing_but_malformed_requests(count):
    run(count, request_seeds(), serve)


@pytest.mark.parametrize("count", [fast, slow])
def test_a_client_meets_nothing_but_malformed_responses(count):
    run(count // 4, response_seeds(), receive)


@pytest.mark.parametrize("count", [fast, slow])
def test_batches_are_refused_with_an_error_of_the_protocol(count):
    run(count // 4, batch_seeds(), read_batch)


@pytest.mark.parametrize("count", [fast, slow])
def test_a_stream_of_frames_is_cut_or_refused(count):
    run(count // 4, request_seeds(), cut)


def test_a_request_takes_no_more_memory_than_its_budget_is_worth():
    seeds, chance = request_seeds(), Random(2)
    tracemalloc.start()
    try:
        for _ in range(2_000):
            frame = bytes(mutated(chance, seeds))
            decode_request(frame)  # the first of its kind compiles the codec
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            decode_request(frame)
            taken = tracemalloc.get_traced_memory()[1] - before
            objects = min(len(frame), REQUEST_OBJECT_BUDGET)
            assert taken < 20_000 + 4 * len(frame) + BYTES_PER_OBJECT * objects, frame.hex()
    finally:
        tracemalloc.stop()


def test_the_largest_request_of_the_least_objects_stays_within_its_budget():
    """What costs most for its bytes: as many empty topics as the budget allows, three bytes each."""
    decode = codec(ProduceRequest, 9).decode
    body = b"\x00" + bytes(6) + b"\x91\x4e" + b"\x01\x01\x00" * REQUEST_OBJECT_BUDGET + b"\x00"
    tracemalloc.start()
    try:
        message, end = decode(body, 0, REQUEST_OBJECT_BUDGET)
        assert (len(message.topic_data), end) == (REQUEST_OBJECT_BUDGET, len(body))
        assert tracemalloc.get_traced_memory()[1] < BYTES_PER_OBJECT * REQUEST_OBJECT_BUDGET
    finally:
        tracemalloc.stop()


def run(count, seeds, attempt):
    chance = Random(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        frame = bytes(mutated(chance, seeds))
        try:
            attempt(frame)
        except Exception as error:
            raise AssertionError(f"frame {number} of Random({count}), {frame.hex()}: {error!r}") from error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KIB


def mutated(chance, seeds):
    random = chance.random
    data = bytearray(seeds[int(random() * len(seeds))])
    for _ in range(1 + int(random() * 3)):
        size = len(data)
        if size == 0:
            break
        at = int(random() * size)
        kind = int(random() * 8)
        if kind == 0:
            data[at] ^= 1 << int(random() * 8)
        elif kind == 1:
            data[at] = (0, 0x7F, 0x80, 0xFF)[int(random() * 4)]
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + 1 + int(random() * 8)]
        elif kind == 4:
            data[at:at] = data[: 1 + int(random() * 16)]
        elif kind == 5:
            donor = seeds[int(random() * len(seeds))]
            data[at:] = donor[int(random() * len(donor)) :]
        elif kind == 6:
            data[at : at + 4] = INTEGERS[int(random() * len(INTEGERS))]
        else:
            data[at : at + 1] = VARINTS[int(random() * len(VARINTS))]
    return data


def serve(frame):
    """As a broker does: header, body, and for Produce the batches."""
    message, version, end = decode_request(frame)
    if message is None:
        return
    assert end <= len(frame)
    assert objects_in(message) <= min(len(frame), REQUEST_OBJECT_BUDGET)
    if end % 8 == 0:
        check_stable(message, version)
    if isinstance(message, ProduceRequest):
        for topic in message.topic_data:
            for partition in topic.partition_data:
                if partition.records is not None:
                    read_batch(partition.records)


def decode_request(frame):
    """(message, version, where it ended), or a message of None when it was refused."""
    try:
        key, version = read_api(frame)
        if key not in api.MODULES or version not in api.load(key).versions:
            return None, version, 0
        compiled = codec(api.load(key).request, version)
        _, _, body = read_request_header(frame, 0, compiled.is_flexible)
        message, end = compiled.decode(memoryview(frame), body, REQUEST_OBJECT_BUDGET)
    except MalformedError:
        return None, -1, 0
    return message, version, end


def receive(frame):
    """As a client does: the first two bytes say which API and version it waits for."""
    one, version = EVERY_VERSION[int.from_bytes(frame[:2], "big") % len(EVERY_VERSION)]
    connection = Connection("fuzz")
    connection.send(one, one.request(), version)
    body = frame[6:]
    try:
        for answer in connection.receive(len(body).to_bytes(4, "big") + body):
            assert objects_in(answer.message) <= min(len(body), RESPONSE_OBJECT_BUDGET)
    except MalformedError:
        return


def read_batch(data):
    """As a log and a consumer do; the second time with the right checksum, so that what is behind it is reached."""
    writable = bytearray(data)
    for attempt in (check_whole, iterate, fix_checksum, check_whole):
        try:
            attempt(writable)
        except KafkaError:
            continue


def check_whole(data):
    check_produce_request(data, 0, len(data))


def iterate(data):
    for position, header in iterate_headers(data):
        count = sum(1 for _ in iterate_records(data, position, limit=1 << 20))
        assert count == header.record_count


def fix_checksum(data):
    for position, _ in iterate_headers(data):
        update_crc(data, position)


def cut(frame):
    """As it arrives: in two pieces, behind a size that may be a lie."""
    reader = FrameReader(MAX_SEED_BYTES)
    stream = frame[4:8] + frame
    half = len(stream) // 3
    try:
        frames = reader.feed(stream[:half]) + reader.feed(stream[half:])
    except MalformedError:
        frames = []
    assert len(reader._partial) <= SIZE_BYTES + MAX_SEED_BYTES
    assert sum(map(len, frames)) <= len(stream)


def check_stable(message, version):
    """What was decoded from anything can be written, and then reads back as it is."""
    data = encode(message, version)
    again, end = codec(type(message), version).decode(data, 0, RESPONSE_OBJECT_BUDGET)
    assert end == len(data)
    assert again == message


def objects_in(value):
    """Elements of arrays and tags, all the way down: what the budget counts."""
    if isinstance(value, list):
        return len(value) + sum(map(objects_in, value)) if value and isinstance(value[0], Struct) else len(value)
    if isinstance(value, Struct):
        return len(value.unknown_tags or ()) + sum(
            objects_in(part)
            for name in type(value).__slots__
            if isinstance(part := getattr(value, name), list | Struct)
        )
    return 0


EVERY_VERSION = [(api.load(key), version) for key in api.MODULES for version in api.load(key).versions]


def request_seeds():
    seeds = [frame["frame"] for frame in recorded("request")]
    for cls, version in every_message():
        one = next((api.load(key) for key in api.MODULES if api.load(key).request is cls), None)
        for seed in range(3 if one else 0):
            message = any_message(Random(seed), cls, version)
            seeds.append(bytes(encode_request(one, version, seed, "fuzz", message))[SIZE_BYTES:])
    return seeds


def response_seeds():
    """Responses behind two bytes that say which they are, as `receive` reads them, and with the id it expects."""
    places = {(one.key, version): index for index, (one, version) in enumerate(EVERY_VERSION)}
    seeds = []
    for frame in recorded("response"):
        place = places[frame["api"], frame["version"]]
        seeds.append(place.to_bytes(2, "big") + bytes(8) + frame["frame"][4:])
    for one, version in EVERY_VERSION:
        for seed in range(3):
            message = any_message(Random(seed), one.response, version)
            data, _ = encode_response(one, version, 0, message)
            seeds.append(places[one.key, version].to_bytes(2, "big") + data)
    return seeds


def batch_seeds():
    seeds = []
    for size in (0, 10, 500):
        content = [Record(offset, 1000 + offset, b"k" * offset, b"v" * size, (("h", b"1"),)) for offset in range(5)]
        seeds += [bytes(build_batch(content, codec=one)) for one in Codec]
    for frame in recorded("request"):
        if frame["api"] == 0:
            seeds += batches_of(frame)
    return seeds


def batches_of(frame):
    compiled = codec(ProduceRequest, frame["version"])
    _, _, body = read_request_header(frame["frame"], 0, compiled.is_flexible)
    message, _ = compiled.decode(frame["frame"], body, REQUEST_OBJECT_BUDGET)
    return [part.records for topic in message.topic_data for part in topic.partition_data if part.records]


def recorded(direction):
    sets = [path for path in (OWN_FRAMES, SHARED_FRAMES) if path.exists()]
    frames = [frame for path in sets for frame in golden_frames(path)]
    return [frame for frame in frames if frame["direction"] == direction and len(frame["frame"]) <= MAX_SEED_BYTES]
