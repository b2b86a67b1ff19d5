"""The world made of memory, for tests and simulation: what `penstock.env` asks for, seeded and breakable."""
