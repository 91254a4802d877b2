"""Spark jobs over the coordinator's events. May import `assignors` and `protocol` only."""
