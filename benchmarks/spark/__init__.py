"""Penstock's data source beside Spark's own Kafka connector, against one broker."""
