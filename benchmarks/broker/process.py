"""What a process has used so far: CPU time, memory, and when it began. Linux only.

CPU time comes from the process's CPU clock: user and system time of all its threads, also of ended ones. It is
the same sum that /proc/PID/stat shows, in nanoseconds instead of hundredths of a second, so that a cell of 50 ms can be
measured. Memory is the resident set, shared pages included: what `top` shows.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

CPU_CLOCK_OF_PROCESS = 2
"""The low three bits of a clock id: CPUCLOCK_SCHED of a whole process, in the kernel's linux/posix-timers.h."""
START_TIME_FIELD = 19
"""Of /proc/PID/stat, counted after the program's name: field 22 of proc(5)."""


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and all its threads."""
    return time.clock_gettime((~pid << 3) | CPU_CLOCK_OF_PROCESS)


def resident_bytes(pid: int) -> int:
    resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return resident_pages * os.sysconf("SC_PAGE_SIZE")


def started_at(pid: int) -> float:
    """When the process began, in seconds on CLOCK_BOOTTIME, to a hundredth of a second."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")


def raise_open_file_limit() -> None:
    """Take all the descriptors that we may have; the brokers inherit them, and 1,000 idle connections need them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
