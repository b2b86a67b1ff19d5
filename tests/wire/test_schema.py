"""Declarations: Kafka's notation for versions, fields that know their place, and objects that behave like data."""

from __future__ import annotations

import pytest

from penstock.wire.schema import (
    LATEST,
    NO_VERSIONS,
    Kind,
    Struct,
    Versions,
    array,
    binary,
    int32,
    layout_of,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
    versions,
)


@struct
class Point(Struct):
    """A part of a message."""

    x: int = int32(default=-1)
    y: int = int32("2+")


@message("0-3", flexible="2+")
class Example(Struct):
    name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+")
    points: list[Point] = array(Point, "1+", nullable="2+")
    sizes: list[int] = array(Kind.INT32, default=None, nullable="0+")
    origin: Point = nested(Point)
    hint: Point | None = nested(Point, "2+", tag=0)
    body: bytes = records(nullable="0+")
    late: str | None = string("1+", nullable="3+", tag=1, tagged="3+", default=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3+", Versions(3, LATEST)), ("0-12", Versions(0, 12)), ("7", Versions(7, 7)), ("none", NO_VERSIONS)],
)
def test_versions_read_as_in_kafkas_definitions(text, expected):
    assert versions(text) == expected


def test_a_range_of_versions_contains_both_ends():
    assert [version in Versions(2, 4) for version in range(1, 6)] == [False, True, True, True, False]
    assert list(Versions(2, 4)) == [2, 3, 4]
    assert 0 not in NO_VERSIONS
    assert list(NO_VERSIONS) == []


def test_fields_keep_their_order_and_say_what_they_are():
    layout = layout_of(Example)
    assert [field.name for field in layout.fields] == [
        "name", "topic_id", "points", "sizes", "origin", "hint", "body", "late",
    ]  # fmt: skip
    assert layout.versions == Versions(0, 3)
    assert layout.flexible == Versions(2, LATEST)
    by_name = {field.name: field for field in layout.fields}
    assert by_name["points"].kind is Point
    assert by_name["points"].is_array
    assert by_name["points"].nullable == Versions(2, LATEST)
    assert by_name["name"].ignorable
    assert by_name["hint"].tag == 0
    assert by_name["hint"].tagged == Versions(2, LATEST)
    assert by_name["late"].tagged == Versions(3, LATEST)
    assert by_name["sizes"].kind is Kind.INT32


def test_what_is_not_named_has_its_default():
    made = Example()
    assert (made.name, made.topic_id, made.points, made.sizes, made.body) == ("", bytes(16), [], None, None)
    assert made.origin == Point(x=-1, y=0)
    assert made.hint is None
    assert made.unknown_tags is None


def test_defaults_are_never_shared():
    first, second = Example(), Example()
    first.points.append(Point())
    first.origin.x = 9
    assert second.points == []
    assert second.origin.x == -1


def test_messages_are_equal_by_their_fields():
    assert Example(name="a", points=[Point(x=1)]) == Example(name="a", points=[Point(x=1)])
    assert Example(name="a") != Example(name="b")
    assert Point() != Example()
    assert Point(unknown_tags={1: b""}) != Point()
    with pytest.raises(TypeError):
        hash(Point())


def test_a_message_has_no_other_fields():
    with pytest.raises(TypeError):
        Point(z=1)
    with pytest.raises(AttributeError):
        Point().z = 1


def test_a_message_shows_itself_but_not_its_payload():
    assert repr(Point(x=3)) == "Point(x=3, y=0)"
    assert "<100 bytes>" in repr(Example(body=bytes(100)))
    assert Point.__doc__ == "A part of a message."


def test_a_class_that_is_not_declared_cannot_be_made():
    class Bare(Struct):
        blob: bytes = binary()

    with pytest.raises(TypeError, match="not declared"):
        Bare()
