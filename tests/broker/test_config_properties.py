"""server.properties: what Java's Properties reads from each text, asked of Java itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.settings.properties import MAX_FILE_BYTES, parse_properties, read_properties
from penstock.errors import ConfigError

JAVA_SAYS = [
    ("a=1", {"a": "1"}),
    ("a = 1", {"a": "1"}),
    ("a:1", {"a": "1"}),
    ("a 1", {"a": "1"}),
    ("a\t\f 1", {"a": "1"}),
    ("  a=1 ", {"a": "1 "}),
    ("# a=1\n! b=2\nc=3", {"c": "3"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=1", {"": "1"}),
    ("a==1", {"a": "=1"}),
    ("a:=1", {"a": "=1"}),
    ("a = = 1", {"a": "= 1"}),
    ("a\\=b=1", {"a=b": "1"}),
    ("a\\:b\\ c=1", {"a:b c": "1"}),
    ("a=b=c", {"a": "b=c"}),
    ("a=one,\\\n   two,\\\n\tthree", {"a": "one,two,three"}),
    ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
    ("a=one\\\\\\\n  two", {"a": "one\\two"}),
    ("a=x\\\n# not a comment", {"a": "x# not a comment"}),
    ("a=x\\\n\nb=2", {"a": "x", "b": "2"}),
    ("a=x\\", {"a": "x"}),
    ("a=\\u0041\\u00e9", {"a": "A\u00e9"}),
    ("\\u0061=1", {"a": "1"}),
    ('a=\\t\\n\\r\\f\\q\\"', {"a": '\t\n\r\fq"'}),
    ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
    ("a=1\na=2", {"a": "2"}),
    ("a= \\  x", {"a": "  x"}),
    ("a=\u00e9", {"a": "\u00e9"}),
    ("log.dirs=C:\\\\tmp\\\\logs", {"log.dirs": "C:\\tmp\\logs"}),
    ("a=x \\\n y", {"a": "x y"}),
    ("\\ a=1", {" a": "1"}),
    ("\\#a=1", {"#a": "1"}),
    ("a=1\n   \n # c\nb=2", {"a": "1", "b": "2"}),
    ("a=\\\n", {"a": ""}),
]


@pytest.mark.parametrize(("text", "properties"), JAVA_SAYS)
def test_a_text_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert {entry.name: entry.value for entry in parse_properties(text)} == properties


def test_a_property_knows_the_line_it_begins_on() -> None:
    entries = parse_properties("# a comment\n\na=1,\\\n  2\r\nb=3\n")
    assert [(entry.name, entry.line) for entry in entries] == [("a", 3), ("b", 5)]


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 2: .u must be followed by four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12\n")


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        entries = parse_properties(text)
    except ValueError as error:
        assert "hexadecimal" in str(error)  # noqa: PT017
    else:
        assert all(1 <= entry.line <= text.count("\n") + text.count("\r") + 1 for entry in entries)


@given(st.dictionaries(st.text("ab.=:# \\\t", min_size=1), st.text("xy=:# \\\t\n"), max_size=4))
def test_what_is_written_with_escapes_is_read_back(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(letter):04x}" for letter in text)

    lines = [f"{escaped(name)}={escaped(value)}" for name, value in properties.items()]
    assert {entry.name: entry.value for entry in parse_properties("\n".join(lines))} == properties


def test_a_file_is_utf_8_and_else_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.rack=Z\u00fcrich".encode())
    assert read_properties(path)[0].value == "Z\u00fcrich"
    path.write_bytes("broker.rack=Z\u00fcrich".encode("latin-1"))
    assert read_properties(path)[0].value == "Z\u00fcrich"


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xef\xbb\xbfnode.id=1")
    assert read_properties(path)[0].name == "node.id"


def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.properties cannot be read: no such file or directory\."):
        read_properties(tmp_path / "nothing.properties")
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        read_properties(tmp_path)


def test_a_file_that_is_far_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(b"\0" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match=r"is not a server\.properties"):
        read_properties(path)
