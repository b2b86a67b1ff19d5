"""The broker: decides and serves."""
