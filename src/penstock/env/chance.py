"""Chance, passed in: a seeded `random.Random` in simulation, the system's own elsewhere."""

from __future__ import annotations

import random


def system_chance() -> random.Random:
    """Unpredictable numbers, for ids and jitter."""
    return random.SystemRandom()
