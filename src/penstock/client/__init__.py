"""Speaks to brokers: ours, and any Kafka from 4.0 on."""
