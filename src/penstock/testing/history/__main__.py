"""`python -m penstock.testing.history FILE...`: the verdict on a recorded history.

Status 1 when a rule is broken, 2 when there is nothing to judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.testing.history.history import History
from penstock.testing.history.verdict import check


def main(arguments: list[str]) -> int:
    if not arguments:
        print("Give the files of a history: python -m penstock.testing.history FILE...", file=sys.stderr)
        return 2
    try:
        verdict = check(History.load(map(Path, arguments)))
    except (OSError, ValueError) as failure:
        print(failure, file=sys.stderr)
        return 2
    print(verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
