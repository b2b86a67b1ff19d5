"""Regular expressions over topic names and transactional ids, matched in time linear in the name (see docs/adr/0007).

The whole name must match, as in Kafka. The syntax is what RE2 and Python's `re` have in common:

    a . [a-z] [^a-z] \\d \\w \\s \\D \\W \\S     one character; a backslash before a sign takes it as it is
    (x) (?:x) (?P<n>x) x|y xy                groups, either, both
    x* x+ x? x{2} x{2,} x{2,5}               repeated; a following ? changes nothing, since the whole must match
    ^ $ \\A \\z                                at the beginning, at the end
    (?i)                                     at the very beginning: upper and lower case are the same

Everything else (back references, looking around, \\b, [:alpha:], \\p{..}) is INVALID_REGULAR_EXPRESSION.

An expression becomes a Thompson automaton, which is in many states at once and reads each character once; sets of
states that were met are remembered, so that most characters cost one look into a dict. Nothing here ever goes back. Its
bounds have names below; a pattern beyond them is refused, not matched slowly.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from functools import lru_cache

from penstock.errors import ErrorCode, KafkaError

MAX_PATTERN_CHARS = 2_048
MAX_DEPTH = 50
"""Groups inside groups."""
MAX_REPEAT = 1_000
"""As in RE2."""
MAX_STATES = 2_000
"""Of one automaton, with every repetition written out."""
MAX_REMEMBERED_SETS = 500
"""Of one automaton; when there are more, all are forgotten."""
MAX_STEPS = 500_000
"""Steps from state to state that one evaluation over all topics may take: a fraction of a second."""

ALPHABET = frozenset(chr(code) for code in range(0x20, 0x7F))
"""More than a topic's name is made of, for transactional ids, which are matched too. Nothing else ever matches."""
_DIGITS = frozenset(string.digits)
_WORDS = frozenset(string.ascii_letters + string.digits + "_")
_ESCAPES = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "w": _WORDS,
    "W": ALPHABET - _WORDS,
    "s": frozenset(" "),
    "S": ALPHABET - {" "},
    "t": frozenset[str](),
    "n": frozenset[str](),
    "r": frozenset[str](),
}
_CHARS, _SPLIT, _START, _END, _MATCH = range(5)

States = frozenset[int]


def match_topics(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """The names that match. INVALID_REGULAR_EXPRESSION when the pattern is wrong or too costly."""
    automaton = compile_pattern(pattern)
    automaton.steps = 0
    return frozenset(topic for topic in topics if automaton.matches(topic))


@lru_cache(maxsize=100)
def compile_pattern(pattern: str) -> Automaton:
    return Automaton(_Parser(pattern).parse())


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"The topic expression cannot be used: {why}.")


class Automaton:
    """States are numbers. Each has an operation, the characters that it takes, and where it goes from there."""

    def __init__(self, node: Node) -> None:
        self._ops: list[int] = [_MATCH]
        self._chars: list[frozenset[str]] = [frozenset()]
        self._next: list[tuple[int, ...]] = [()]
        self.steps = 0
        first = self._add_node(node, 0)
        self._begin = self._closure((first,), is_start=True)
        self._known: dict[States, dict[str, States]] = {}
        self._accepting: dict[States, bool] = {}

    # Building: from the end to the beginning, so that each state knows where it leads.

    def _state(self, op: int, following: tuple[int, ...], chars: frozenset[str] = frozenset()) -> int:
        if len(self._ops) >= MAX_STATES:
            raise _invalid(f"with its repetitions written out it has more than {MAX_STATES} parts")
        self._ops.append(op)
        self._chars.append(chars)
        self._next.append(following)
        return len(self._ops) - 1

    def _add_node(self, node: Node, after: int) -> int:
        """The state that begins the node, which is followed by `after`."""
        if isinstance(node, Chars):
            return self._state(_CHARS, (after,), node.chars)
        if isinstance(node, Anchor):
            return self._state(_START if node.is_start else _END, (after,))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._add_node(part, after)
            return after
        if isinstance(node, Either):
            return self._state(_SPLIT, tuple(self._add_node(choice, after) for choice in node.choices))
        assert isinstance(node, Repeat), "there are no other nodes"
        return self._add_repeat(node, after)

    def _add_repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._state(_SPLIT, ())
            self._next[loop] = (self._add_node(node.part, loop), after)
            begin = loop
        else:
            begin = after
            for _ in range(node.most - node.least):
                begin = self._state(_SPLIT, (self._add_node(node.part, begin), after))
        for _ in range(node.least):
            begin = self._add_node(node.part, begin)
        return begin

    # Matching.

    def matches(self, name: str) -> bool:
        states = self._begin
        for char in name:
            following = self._known.get(states)
            if following is None or char not in following:
                states = self._advance(states, char)
            else:
                states = following[char]
            if not states:
                return False
        return self._accepts(states, is_empty=not name)

    def _accepts(self, states: States, is_empty: bool) -> bool:
        """Whether the name may end here."""
        accepts = None if is_empty else self._accepting.get(states)
        if accepts is None:
            accepts = 0 in self._closure(states, is_start=is_empty, is_end=True)
            if not is_empty:
                self._forget_if_many()
                self._accepting[states] = accepts
        return accepts

    def _advance(self, states: States, char: str) -> States:
        taken = [self._next[state][0] for state in states if self._ops[state] == _CHARS and char in self._chars[state]]
        self._count(len(states))
        reached = self._closure(taken)
        self._forget_if_many()
        self._known.setdefault(states, {})[char] = reached
        return reached

    def _forget_if_many(self) -> None:
        if max(len(self._known), len(self._accepting)) >= MAX_REMEMBERED_SETS:
            self._known.clear()
            self._accepting.clear()

    def _closure(self, states: Iterable[int], is_start: bool = False, is_end: bool = False) -> States:
        """The states that are reached without a character. An end that is not there yet is kept for later."""
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            op = self._ops[state]
            if op == _SPLIT or (op == _START and is_start) or (op == _END and is_end):
                waiting.extend(self._next[state])
        self._count(len(reached))
        return frozenset(reached)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise _invalid("it takes too long to match; make it simpler")


class Node:
    """A part of an expression."""

    __slots__ = ()


class Chars(Node):
    __slots__ = ("chars",)

    def __init__(self, chars: frozenset[str]) -> None:
        self.chars = chars


class Anchor(Node):
    __slots__ = ("is_start",)

    def __init__(self, is_start: bool) -> None:
        self.is_start = is_start


class Sequence(Node):
    __slots__ = ("parts",)

    def __init__(self, parts: list[Node]) -> None:
        self.parts = parts


class Either(Node):
    __slots__ = ("choices",)

    def __init__(self, choices: list[Node]) -> None:
        self.choices = choices


class Repeat(Node):
    """`most` is None where there is no end to it."""

    __slots__ = ("least", "most", "part")

    def __init__(self, part: Node, least: int, most: int | None) -> None:
        self.part = part
        self.least = least
        self.most = most


class _Parser:
    """One look at each character of the pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise _invalid(f"it is longer than {MAX_PATTERN_CHARS} characters")
        self._ignores_case = pattern.startswith("(?i)")
        self._text = pattern.removeprefix("(?i)")
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._either()
        if self._position < len(self._text):
            raise _invalid("a closing bracket has no opening one")
        return node

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise _invalid("it ends too early")
        self._position += 1
        return char

    def _skip(self, word: str) -> bool:
        if self._text.startswith(word, self._position):
            self._position += len(word)
            return True
        return False

    def _either(self) -> Node:
        choices = [self._sequence()]
        while self._skip("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else Either(choices)

    def _sequence(self) -> Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Sequence(parts)

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._skip("?")
        if self._peek() in ("*", "+", "?") or self._is_counted():
            raise _invalid("a repetition is repeated")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._skip(sign):
                return least, most
        if not self._is_counted():
            return None
        inside, _, _ = self._text[self._position + 1 :].partition("}")
        self._position += len(inside) + 2
        low, comma, high = inside.partition(",")
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise _invalid(f"{{{inside}}} is no possible number of repetitions")
        return least, most

    def _is_counted(self) -> bool:
        """Whether a {2}, {2,} or {2,5} comes; other braces are characters, as in RE2."""
        if self._peek() != "{":
            return False
        inside, closing, _ = self._text[self._position + 1 : self._position + 12].partition("}")
        least, _, most = inside.partition(",")
        return bool(closing) and _is_number(least) and (not most or _is_number(most))

    def _atom(self) -> Node:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            return Chars(ALPHABET)
        if char in "^$":
            return Anchor(char == "^")
        if char in "*+?":
            raise _invalid(f"nothing stands before {char}")
        if char == "\\":
            if self._peek() in ("A", "z"):
                return Anchor(self._take() == "A")
            return Chars(self._escape())
        return Chars(self._cased(frozenset(char)))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _invalid(f"more than {MAX_DEPTH} groups stand inside each other")
        if self._skip("?"):
            if self._skip("P<") or self._skip("<"):
                self._name()
            elif not self._skip(":"):
                raise _invalid("only (...), (?:...) and (?P<name>...) are groups")
        node = self._either()
        if not self._skip(")"):
            raise _invalid("a bracket is not closed")
        self._depth -= 1
        return node

    def _name(self) -> None:
        """(?<= and (?<! look around: they have no name."""
        name, closing, _ = self._text[self._position :].partition(">")
        if not closing or not name.isidentifier():
            raise _invalid("a group has no proper name")
        self._position += len(name) + 1

    def _escape(self) -> frozenset[str]:
        char = self._take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char.isalnum():
            raise _invalid(f"\\{char} is not known here")
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        is_negated = self._skip("^")
        found: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            if self._text.startswith("[:", self._position):
                raise _invalid("[:name:] is not known here")
            found |= self._class_part()
            is_first = False
        self._take()
        cased = self._cased(frozenset(found))
        return ALPHABET - cased if is_negated else cased

    def _class_part(self) -> frozenset[str]:
        """One character, an escape, or from one character to another."""
        char = self._take()
        if char == "\\":
            chars = self._escape()
            if len(chars) != 1:
                return chars
            (char,) = chars
        if self._peek() != "-" or self._text[self._position + 1 : self._position + 2] in ("", "]"):
            return frozenset(char)
        self._take()
        last = self._take()
        if last == "\\":
            chars = self._escape()
            if len(chars) != 1:
                raise _invalid("a range must end with one character")
            (last,) = chars
        if last < char:
            raise _invalid(f"the range {char}-{last} is empty")
        return frozenset(each for each in ALPHABET if char <= each <= last)

    def _cased(self, chars: frozenset[str]) -> frozenset[str]:
        return chars | {each.swapcase() for each in chars} if self._ignores_case else chars


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
