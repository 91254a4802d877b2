"""Stateful members that are not Kafka Streams, assigned by the same chain."""
