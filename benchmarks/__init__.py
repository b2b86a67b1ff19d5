"""Benchmarks of Penstock beside Apache Kafka; README.md says how to run them and how to read them."""
