"""Where a transactional id lives: the partition of `__transaction_state` that it hashes to, as groups have theirs."""

from __future__ import annotations

from penstock.broker.internal_topic import HomeState
from penstock.broker.replicated import ReplicatedLog
from penstock.broker.transactions.shard import Shard


class Home:
    """One partition: its log, and the ids in it."""

    __slots__ = ("coordinator_epoch", "log", "shard", "state")

    def __init__(self, log: ReplicatedLog, shard: Shard) -> None:
        self.log = log
        self.shard = shard
        self.state = HomeState.LOADING
        self.coordinator_epoch = log.partition.leader_epoch
        """Stands in every marker, so that one of a coordinator that lost its office is known as such."""
