"""Settings of transactions and of their coordinator."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast
from penstock.broker.settings.setting import BOOLEAN, CLUSTER_WIDE, INT, SHORT, Setting

# A table, two lines to a row.
# fmt: off
TRANSACTION_SETTINGS = (
    Setting("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, check=AtLeast(0),
            doc="How many milliseconds at most a leader goes on asking whether a partition is in a transaction."),
    Setting("add.partitions.to.txn.retry.backoff.ms", INT, 20, check=AtLeast(1),
            doc="How many milliseconds a leader waits before it asks again whether a partition is in a "
                "transaction."),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, check=AtLeast(1),
            implemented=True,
            doc="How often the broker looks for transactions that have run out of time, in milliseconds."),
    Setting("transaction.max.timeout.ms", INT, 900_000, check=AtLeast(1), implemented=True,
            doc="The longest transaction timeout that a producer may ask for, in milliseconds."),
    Setting("transaction.partition.verification.enable", BOOLEAN, True, CLUSTER_WIDE,
            doc="Whether a leader checks that a partition belongs to the transaction before it accepts a "
                "transactional write."),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, check=AtLeast(1),
            implemented=True,
            doc="How often the broker looks for transactional ids to forget, in milliseconds."),
    Setting("transaction.state.log.load.buffer.size", INT, 5_242_880, check=AtLeast(1), implemented=True,
            doc="How many bytes are read at a time when a coordinator loads its transactions."),
    Setting("transaction.state.log.min.isr", INT, 2, check=AtLeast(1), implemented=True,
            doc="How many replicas of the transaction topic must be in sync for a write."),
    Setting("transaction.state.log.num.partitions", INT, 50, check=AtLeast(1), implemented=True,
            doc="How many partitions the transaction topic gets when it is created."),
    Setting("transaction.state.log.replication.factor", SHORT, 3, check=AtLeast(1), implemented=True,
            doc="How many replicas the transaction topic gets when it is created."),
    Setting("transaction.state.log.segment.bytes", INT, 104_857_600, check=AtLeast(1), implemented=True,
            doc="The size of the transaction topic's segments, in bytes."),
    Setting("transaction.two.phase.commit.enable", BOOLEAN, False,
            doc="Whether producers may keep a transaction open for an outside coordinator."),
    Setting("transactional.id.expiration.ms", INT, 604_800_000, check=AtLeast(1), implemented=True,
            doc="After how many milliseconds without a transaction a transactional id is forgotten."),
)
# fmt: on
