"""What Penstock must reach: parts of Kafka's figures in the same run, and a few figures of its own.

A cell's CPU may be at most so large a part of Kafka's. Throughput must be at least Kafka's; where the client is
the limit, as with confluent-kafka at 100 B, within noise, which is taken to be 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    RATIO_AT_MOST = "ratio <="
    RATIO_AT_LEAST = "ratio >="
    VALUE_AT_MOST = "<="
    VALUE_AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Target:
    """A limit for one figure of one cell."""

    rule: Rule
    limit: float

    def __str__(self) -> str:
        return f"{self.rule.value} {self.limit:g}"

    def judged(self, value: float | None, ratio: float | None) -> float | None:
        """Which of the two the rule is about."""
        return value if self.rule in (Rule.VALUE_AT_MOST, Rule.VALUE_AT_LEAST) else ratio

    def is_met(self, value: float | None, ratio: float | None) -> bool | None:
        """None when there is nothing to compare, as without Kafka."""
        judged = self.judged(value, ratio)
        if judged is None:
            return None
        is_least = self.rule in (Rule.RATIO_AT_LEAST, Rule.VALUE_AT_LEAST)
        return judged >= self.limit if is_least else judged <= self.limit


WITHIN_NOISE = 0.95
COMMITS_PER_SECOND = 10_000
KEPT_UP = 0.99
"""Of the pace that was set: the last answers come after the last request was due."""
FIRST_MESSAGE_MS = 100
FIRST_MESSAGE_CLIENTS = ("confluent", "confluent-consumer", "aiokafka", "kafka-python", "penstock")
_CLIENT_BOUND = "client-100B-"
"""At 100 B librdkafka in Python is the limit; everywhere else a slower Penstock is a slower Penstock."""
_THROUGHPUT = {"requests_per_s", "gb_per_s", "in_messages_per_s", "out_messages_per_s", "transactional_messages_per_s"}
OF_IDEMPOTENT = 0.8
"""Of the messages a second that the same producers send without transactions, to the same broker."""
TIMES_CONSUME, TIMES_PRODUCE = 5, 4
"""How much faster Arrow is than confluent-kafka, on the same broker."""
TRANSACTION_CELLS = ("small-v1", "small-v1-20", "small-v2", "small-v2-20")


def _at_most(limit: float) -> Target:
    return Target(Rule.RATIO_AT_MOST, limit)


def _value(limit: float) -> Target:
    return Target(Rule.VALUE_AT_MOST, limit)


_TARGETS = {
    ("produce-1KB", "cpu_us_per_request"): _at_most(0.25),
    ("idempotent-1KB", "cpu_us_per_request"): _at_most(0.25),
    ("idle-1KB", "cpu_us_per_request"): _at_most(0.25),
    ("single-1KB", "cpu_us_per_request"): _at_most(0.5),
    ("produce-16KB", "cpu_s_per_gb"): _at_most(0.4),
    ("idempotent-16KB", "cpu_s_per_gb"): _at_most(0.4),
    ("produce-100KB", "cpu_s_per_gb"): _at_most(0.45),
    ("produce-900KB", "cpu_s_per_gb"): _at_most(0.55),
    ("partitions-100", "cpu_us_per_partition"): _at_most(0.6),
    ("fetch", "cpu_s_per_gb"): _at_most(0.65),
    ("end-to-end", "p99_us"): _at_most(0.3),
    ("memory", "memory_mb"): _at_most(0.1),
    ("start", "first_start_s"): _at_most(0.2),
    ("start", "second_start_s"): _at_most(0.2),
    ("start", "idle_memory_mb"): _value(60),
    ("start", "idle_connection_kb"): _value(10),
    ("commit", "cpu_us_per_request"): _at_most(0.5),
    ("heartbeat", "cpu_us_per_request"): _at_most(0.5),
    ("commit-1000-groups", "commits_per_s"): Target(Rule.VALUE_AT_LEAST, COMMITS_PER_SECOND * KEPT_UP),
    **{(f"read-{size}", "times_confluent"): Target(Rule.VALUE_AT_LEAST, TIMES_CONSUME) for size in ("100B", "1KB")},
    **{(f"write-{size}", "times_confluent"): Target(Rule.VALUE_AT_LEAST, TIMES_PRODUCE) for size in ("100B", "1KB")},
    **{(cell, "cpu_us_per_transaction"): _at_most(0.6) for cell in TRANSACTION_CELLS},
    **{(f"first-{client}", "first_message_ms"): _value(FIRST_MESSAGE_MS) for client in FIRST_MESSAGE_CLIENTS},
}


def target_of(cell: str, figure: str) -> Target | None:
    if figure == "of_idempotent":
        return Target(Rule.VALUE_AT_LEAST, OF_IDEMPOTENT)
    if figure in _THROUGHPUT:
        return Target(Rule.RATIO_AT_LEAST, WITHIN_NOISE if cell.startswith(_CLIENT_BOUND) else 1.0)
    return _TARGETS.get((cell, figure))
