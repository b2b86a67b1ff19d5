"""What the kernel says about a process that a test started."""

from __future__ import annotations

import os
from pathlib import Path

MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    """Memory that it has now."""
    return _status(pid, "VmRSS")


def peak_resident_bytes(pid: int) -> int:
    """The most that it had since its start, or since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptor_count(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def socket_count(pid: int) -> int:
    """Open sockets, its listeners among them."""
    count = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            count += os.readlink(entry.path).startswith("socket:")
        except FileNotFoundError:  # closed since
            continue
    return count


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has no {name}")
