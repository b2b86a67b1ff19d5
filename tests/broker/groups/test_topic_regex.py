"""Regular expressions over topic names: what Python's `re` says, without its patience."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.groups import topic_regex
from penstock.broker.groups.topic_regex import compile_pattern, match_topics
from penstock.errors import ErrorCode, KafkaError

atoms = st.sampled_from(["a", "b", "1", "-", r"\.", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\w", r"\W", "^", "$"])
bounds = st.sampled_from(["", "*", "+", "?", "*?", "{2}", "{1,}", "{0,2}", "{2,3}?"])


def patterns() -> st.SearchStrategy[str]:
    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        grouped = st.builds(lambda part, bound: f"(?:{part}){bound}", inner, bounds)
        return st.one_of(
            grouped,
            st.builds("{}{}".format, inner, inner),
            st.builds("{}|{}".format, inner, inner),
        )

    plain = st.builds(lambda atom, bound: atom + ("" if atom in "^$" else bound), atoms, bounds)
    return st.recursive(plain, grow, max_leaves=6)


@given(patterns(), st.text("abc1-._", min_size=1, max_size=8))
def test_it_agrees_with_python(pattern: str, name: str) -> None:
    expected = re.compile(f"(?:{pattern})").fullmatch(name) is not None
    assert compile_pattern(pattern).matches(name) == expected


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("orders", "orders", True),
        ("orders", "orders-eu", False),
        ("^orders-.*", "orders-eu", True),
        ("^orders-.*$", "my-orders-eu", False),
        ("^a|^b", "b", True),
        (r"\Aab\z", "ab", True),
        ("(?i)Orders", "oRDERS", True),
        ("(?P<region>eu|us)-[0-9]{2}", "us-07", True),
        ("[]a]", "a", True),
        ("[a-]", "-", True),
        ("a{", "a", False),
        ("", "a", False),
        ("é", "a", False),
    ],
)
def test_names(pattern: str, name: str, is_match: bool) -> None:
    assert compile_pattern(pattern).matches(name) == is_match


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "[", "[a", "a)", "*", "+a", "a**", "a{2}{3}", "[b-a]", "\\", "(?=a)", "(?<=a)", "(?<!a)", r"(a)\1",
        r"\b", r"\pL", "[[:alpha:]]", "a{1001}", "a{3,2}", "((a{100}){100})", "(" * 60 + ")" * 60, "a" * 3000,
        "(?P<1>a)", "(?#a)",
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as caught:
        compile_pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*(a*)*b", "(.*)*x", "(a|aa)+$b"])
def test_patterns_that_python_would_never_finish_take_few_steps(pattern: str) -> None:
    automaton = compile_pattern(pattern)
    automaton.steps = 0
    assert not automaton.matches("a" * 249)
    assert automaton.steps < 2_000


def test_a_pattern_that_takes_too_long_over_all_topics_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_regex, "MAX_STEPS", 5_000)
    names = [f"{number:b}" for number in range(2_000)]
    with pytest.raises(KafkaError, match="too long"):
        match_topics("(0|1)*1(0|1){11}", names)
    assert match_topics("1(0|1)*", names) == set(names) - {"0"}


def test_what_is_remembered_is_bounded() -> None:
    automaton = compile_pattern("(0|1)*1(0|1){12}")
    for number in range(1_000):
        automaton.steps = 0
        automaton.matches(f"{number:010b}" * 3)
    assert len(automaton._known) <= topic_regex.MAX_REMEMBERED_SETS
