"""A sampling profiler for a broker: where the main thread's CPU time goes, at little cost.

    python sampler.py OUT -m penstock.cli.main serve ...

Every 4 ms of the process's CPU time the kernel sends SIGPROF, and the Python stack of that moment is counted. Time
inside a C function counts for the Python line that called it. SIGUSR1 begins, SIGUSR2 pauses, so that a profile holds
the timed runs only. At the end OUT gets functions by own and by inclusive samples, and lines; OUT.folded gets the
stacks, one a line, as flame graph programs read them.
"""

from __future__ import annotations

import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_SECONDS = 0.004
STACK_DEPTH = 64
LINES = 60


class Sampler:
    """Counts stacks, outermost function first."""

    def __init__(self) -> None:
        self.stacks: Counter[tuple[str, ...]] = Counter()
        self.lines: Counter[str] = Counter()

    def install(self) -> None:
        signal.signal(signal.SIGPROF, self._on_sample)
        every = INTERVAL_SECONDS
        signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, every, every))
        signal.signal(signal.SIGUSR2, lambda *_: signal.setitimer(signal.ITIMER_PROF, 0))

    def write(self, path: Path) -> None:
        path.write_text(self.summary())
        folded = "".join(f"{';'.join(stack)} {count}\n" for stack, count in self.stacks.most_common())
        path.with_name(path.name + ".folded").write_text(folded)

    def summary(self) -> str:
        own: Counter[str] = Counter()
        inclusive: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            own[stack[-1]] += count
            for function in set(stack):
                inclusive[function] += count
        total = max(1, sum(own.values()))
        parts = [f"{total} samples, one for every {INTERVAL_SECONDS * 1000:.0f} ms of CPU\n"]
        for title, counts in (("own", own), ("inclusive", inclusive), ("own, by line", self.lines)):
            parts.append(f"\n{title}\n")
            parts += [f"{100 * count / total:6.1f} %  {name}\n" for name, count in counts.most_common(LINES)]
        return "".join(parts)

    def _on_sample(self, _signal: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        self.lines[f"{_name(frame)}:{frame.f_lineno}"] += 1
        stack: list[str] = []
        while frame is not None and len(stack) < STACK_DEPTH:
            stack.append(_name(frame))
            frame = frame.f_back
        self.stacks[tuple(reversed(stack))] += 1


def _name(frame: FrameType) -> str:
    file = frame.f_code.co_filename.rpartition("/")[2]
    return f"{file}:{frame.f_code.co_qualname}"


def main() -> None:
    out, flag, module = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    assert flag == "-m", "usage: sampler.py OUT -m MODULE ARGUMENTS"
    sys.argv = [module, *sys.argv[4:]]
    sys.path[0] = ""
    sampler = Sampler()
    sampler.install()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sampler.write(out)


if __name__ == "__main__":
    main()
