"""Penstock for tests: a broker in the test's own process, and a world that can be made to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> type[Cluster]:
    """`Cluster` at first use: the pytest plugin is loaded in every run and must cost nothing where it is not used."""
    if name == "Cluster":
        from penstock.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
