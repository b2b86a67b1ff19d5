"""A history checker: what clients did and saw, and whether a log with transactions can have answered so.

    event.py         one line of a history: what a client did or saw
    recorder.py      writes lines that survive the `kill -9` of their process
    recorded.py      a producer that records its transactions
    transaction.py   lines put together: transactions, their writes and reads, and how each ended
    history.py       all of them, and what follows from them
    offsets.py       what must be true of offsets: no two values at one, none lost, doubled, unseen or out of order
    visibility.py    what a reader may see: nothing aborted, nothing early, no half of a transaction, no gap
    cycles.py        no transaction sees what came of itself
    processing.py    read, process, write: every message in exactly one committed transaction
    verdict.py       all checks, and a verdict in sentences

Clients record to files of JSON lines, one file for each process. Afterwards:

    verdict = check(History.load(directory.glob("*.jsonl")))
    assert verdict.is_good, verdict

or `python -m penstock.testing.history FILE...`. The properties are those that Jepsen checks in Kafka; each is one
function with one sentence for each violation. The checker knows nothing of brokers and does no I/O but reading lines.

Rules of a history:
- every value is written once. A program that tries a message again writes another value, such as `7 attempt-2`;
- a write, and the wish to commit, are recorded before they are sent; their outcome after it is known. What has no
  outcome may have happened or not. A transaction that never asked to be committed was aborted;
- readers are `read_committed`, begin at the start of the log, and record what they got after they got it;
- times are of one machine's monotonic clock, so that "before" means something between processes.
"""

from penstock.testing.history.event import Event, Happening
from penstock.testing.history.history import History
from penstock.testing.history.recorded import RecordedProducer
from penstock.testing.history.recorder import Recorder
from penstock.testing.history.verdict import Verdict, Violation, check

__all__ = ["Event", "Happening", "History", "RecordedProducer", "Recorder", "Verdict", "Violation", "check"]
