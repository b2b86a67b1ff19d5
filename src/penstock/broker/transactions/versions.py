"""The versions of requests in which transactions changed."""

from __future__ import annotations

BATCHED_SINCE = 4
"""AddPartitionsToTxn: many transactions in one request, each added to or only verified, as brokers ask each other."""

EPOCH_PER_TRANSACTION_SINCE = 5
"""EndTxn: the answer has the producer id and epoch to go on with, those of version 2 of transactions."""
