"""One row of the table of settings, and how its value is read from text and written back.

A value is text until `Setting.parse` has seen it: every layer (file, environment, command line, dynamic, topic) holds
text, as in Kafka, so that a value can be shown, stored and checked again as it was given. `parse` raises `ValueError`
with a sentence that begins with the setting's name; the caller adds where the value came from. `shown` is the way back
and prints what Kafka prints: lists joined with commas, booleans in lower case, doubles as Java writes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum

from penstock.broker.settings.checks import Check
from penstock.broker.settings.units import Unit, in_unit, unit_of

Value = bool | int | float | str | tuple[str, ...] | None

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = math.nextafter(math.inf, 0.0)


class Type(IntEnum):
    """Kafka's types of settings; the numbers are DescribeConfigs' (v3 and later)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Whether a setting can change while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD
PER_BROKER, CLUSTER_WIDE = Update.PER_BROKER, Update.CLUSTER_WIDE

NO_CONTROLLERS = "metadata is in SQLite or ZooKeeper, not in a quorum of controllers"
NO_JAVA = "Java classes cannot be loaded"
ONE_LOOP = "one event loop serves every connection"

BOUNDS = {SHORT: 2**15 - 1, INT: INT_MAX, LONG: LONG_MAX}
"""The largest number of each of Java's integer types; the smallest is one further from zero."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: what it is called, what it may be, what it is when nobody says, and what it does."""

    name: str
    type: Type
    default: Value
    update: Update = Update.READ_ONLY
    check: Check | None = None
    implemented: bool = False
    """Penstock does what the setting says."""
    moot: str = ""
    """Why the setting means nothing here; such a setting is accepted, and need not be implemented."""
    differs: str = ""
    """Why the default is not Kafka's."""
    synonyms: tuple[str, ...] = ()
    """Of a topic's or group's setting: the broker settings that hold its default, the strongest first."""
    internal: bool = False
    """Kafka accepts it but does not list it."""
    dynamic_only: bool = False
    """Not in server.properties: it exists only when it was set on a running cluster."""
    needs_listener: bool = False
    """Changes only with a listener's prefix: listener.name.NAME.SETTING."""
    doc: str = ""

    @property
    def sensitive(self) -> bool:
        """The value is never shown."""
        return self.type is PASSWORD

    @property
    def read_only(self) -> bool:
        return self.update is Update.READ_ONLY

    @property
    def unit(self) -> Unit | None:
        """What a number of this setting counts, when its name says so."""
        return unit_of(self.name)

    def parse(self, text: str) -> Value:
        """The value that the text stands for, checked; ValueError with a sentence when it is none."""
        value = self._read(text.strip())
        if self.check is not None:
            problem = self.check.problem(value)
            if problem:
                raise ValueError(f"{self.name} {problem}, not {self.quoted(text)}.")
        return value

    def _read(self, text: str) -> Value:
        if self.type in BOUNDS:
            return self._whole_number(text)
        if self.type is DOUBLE:
            return self._number(text)
        if self.type is BOOLEAN:
            return self._boolean(text)
        if self.type is LIST:
            return self._list(text)
        return text

    def _whole_number(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        # int() takes 1_000 and other scripts' digits, which Java does not.
        if value is None or not text.isascii() or "_" in text:
            wanted = f"a whole number of {self.unit.value}" if self.unit else "a whole number"
            raise ValueError(f"{self.name} must be {wanted}, not {self.quoted(text)}.{self._hint(text)}")
        bound = BOUNDS[self.type]
        if not -bound - 1 <= value <= bound:
            raise ValueError(f"{self.name} must be between {-bound - 1} and {bound}, not {text}.")
        return value

    def _number(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value) or not text.isascii() or "_" in text:
            raise ValueError(f"{self.name} must be a number, not {self.quoted(text)}.")
        return value

    def _boolean(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError(f"{self.name} must be true or false, not {self.quoted(text)}.")
        return lowered == "true"

    def _list(self, text: str) -> tuple[str, ...]:
        """Kafka drops a member that is there twice, and refuses an empty one."""
        members = tuple(member.strip() for member in text.split(",")) if text else ()
        if "" in members:
            raise ValueError(
                f"{self.name} has an empty member: {self.quoted(text)}. Write one comma between two members."
            )
        return tuple(dict.fromkeys(members))

    def _hint(self, text: str) -> str:
        """'7d' for a number of milliseconds: say what to write."""
        amount = in_unit(text, self.unit) if self.unit else None
        return f" Write {amount}." if amount is not None else ""

    def quoted(self, text: str) -> str:
        """The text for a message; a secret is not repeated."""
        return "the given value" if self.sensitive else repr(text)


def shown(value: Value) -> str | None:
    """A typed value as Kafka prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return java_double(value) if isinstance(value, float) else str(value)


def java_double(value: float) -> str:
    """Java's Double.toString: plain between 0.001 and 10 million, else one digit before the point and an E."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for text in (f"{value:.{digits}e}" for digits in range(1, 18)) if float(text) == value)
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"
