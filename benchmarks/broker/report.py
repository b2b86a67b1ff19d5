"""The results: figures of every round, their medians and ratios, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .cells import Cell, Figures
from .targets import Target, target_of

UNITS = {
    "requests_per_s": "requests/s", "mb_per_s": "MB/s", "gb_per_s": "GB/s", "cpu_us_per_request": "CPU us / request",
    "cpu_us_per_partition": "CPU us / partition", "cpu_s_per_gb": "CPU s / GB", "p50_us": "p50 us", "p99_us": "p99 us",
    "p999_us": "p99.9 us", "relay_p50_us": "no broker: p50 us", "relay_p99_us": "no broker: p99 us",
    "relay_p999_us": "no broker: p99.9 us", "cpu_us_per_message": "CPU us / message", "memory_mb": "memory MB",
    "first_start_s": "first start s", "first_start_cpu_s": "first start CPU s", "second_start_s": "second start s",
    "second_start_cpu_s": "second start CPU s", "idle_memory_mb": "idle memory MB",
    "idle_connection_kb": "KB / idle connection",
    "commits_per_s": "commits/s", "cpu_of_a_core": "CPU, of a core",
    "first_message_ms": "new consumer, ms", "connected_first_message_ms": "connected before, ms",
    "in_messages_per_s": "in, messages/s", "in_mb_per_s": "in, MB/s", "in_cpu_s_per_gb": "in, CPU s / GB",
    "in_cpu_us_per_message": "in, CPU us / message",
    "out_messages_per_s": "out, messages/s", "out_mb_per_s": "out, MB/s",
    "out_cpu_s_per_gb": "out, CPU s / GB", "out_cpu_us_per_message": "out, CPU us / message",
    "in_broker_cores": "in, broker's cores", "in_client_cores": "in, client's cores",
    "out_broker_cores": "out, broker's cores", "out_client_cores": "out, client's cores",
    "transactions_per_s": "transactions/s", "cpu_us_per_transaction": "CPU us / transaction",
    "retries_per_1000": "sent again / 1,000", "idempotent_messages_per_s": "idempotent, messages/s",
    "transactional_messages_per_s": "transactional, messages/s", "of_idempotent": "part of idempotent",
    "waiting_messages_per_s": "idempotent, waiting, messages/s", "of_waiting": "part of idempotent, waiting",
    "idempotent_cpu_us_per_1000": "idempotent, CPU us / 1,000", "copied_messages_per_s": "messages/s",
    "transactional_cpu_us_per_1000": "transactional, CPU us / 1,000",
    "idempotent_client_cpu_us_per_1000": "idempotent, clients' CPU us / 1,000",
    "transactional_client_cpu_us_per_1000": "transactional, clients' CPU us / 1,000",
    "messages_per_transaction": "messages / transaction",
    "arrow_records_per_s": "Arrow, records/s", "confluent_records_per_s": "confluent-kafka, records/s",
    "times_confluent": "times confluent-kafka", "arrow_mb_per_s": "Arrow, MB/s",
    "socket_times_confluent": "bare socket, times confluent-kafka", "socket_mb_per_s": "bare socket, MB/s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one cell on both systems; None where a system did not run."""

    cell: str
    figure: str
    kafka: float | None
    penstock: float | None

    @property
    def ratio(self) -> float | None:
        if self.kafka is None or self.penstock is None or self.kafka == 0:
            return None
        return self.penstock / self.kafka

    @property
    def target(self) -> Target | None:
        return target_of(self.cell, self.figure)

    @property
    def judged(self) -> float | None:
        """What its target is about."""
        return None if self.target is None else self.target.judged(self.penstock, self.ratio)

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met(self.penstock, self.ratio)


@dataclass(slots=True)
class Results:
    """The figures of all rounds: cell, then system, then one entry a round."""

    options: dict[str, Any]
    rounds: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, cell: Cell, system: str, figures: Figures) -> None:
        self.rounds.setdefault(cell.name, {}).setdefault(system, []).append(figures)

    def rows(self, cells: list[str] | None = None) -> Iterator[Row]:
        for cell in self.rounds if cells is None else cells:
            kafka, penstock = (_medians(self.rounds.get(cell, {}).get(name, [])) for name in ("kafka", "penstock"))
            for figure in penstock or kafka:
                yield Row(cell, figure, kafka.get(figure), penstock.get(figure))

    def to_json(self) -> str:
        medians = [
            {
                "cell": row.cell, "figure": row.figure, "kafka": row.kafka, "penstock": row.penstock,
                "ratio": row.ratio, "target": str(row.target) if row.target else None, "met": row.is_met,
            }
            for row in self.rows()
        ]  # fmt: skip
        known = {"machine": machine(), "options": self.options, "failures": self.failures}
        return json.dumps({**known, "medians": medians, "rounds": self.rounds}, indent=1)


def machine() -> dict[str, Any]:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpus": os.cpu_count(),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def show(results: Results, console: Console, cells: list[str] | None = None) -> None:
    """The table, or the part of it that belongs to some cells."""
    table = Table(title=None, header_style="bold", pad_edge=False)
    table.add_column("cell")
    table.add_column("figure")
    for column in ("Kafka 4.3", "Penstock", "ratio", "target"):
        table.add_column(column, justify="right")
    table.add_column("")
    last = None
    for row in results.rows(cells):
        if last is not None and row.cell != last:
            table.add_section()
        table.add_row(
            row.cell if row.cell != last else "",
            UNITS[row.figure],
            _number(row.kafka),
            _number(row.penstock),
            _number(row.ratio),
            str(row.target or ""),
            _verdict(row.is_met),
        )
        last = row.cell
    console.print(table)


def show_summary(results: Results, console: Console) -> None:
    judged = [row for row in results.rows() if row.is_met is not None]
    missed = [row for row in judged if not row.is_met]
    console.print(f"{len(judged) - len(missed)} of {len(judged)} targets met", style="green" if not missed else "red")
    for row in missed:
        console.print(f"  missed: {row.cell}, {UNITS[row.figure]}: {_number(row.judged)}, target {row.target}")
    for cell, reason in results.failures.items():
        console.print(f"  failed: {cell}: {reason}", style="red", markup=False)


def _verdict(is_met: bool | None) -> str:
    if is_met is None:
        return ""
    return "[green]met[/green]" if is_met else "[red]missed[/red]"


def _medians(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]} if rounds else {}


def _number(value: float | None) -> str:
    """Three digits that count, and thousands apart."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
