"""Transactions: their coordinator, and what the data path asks of it."""
