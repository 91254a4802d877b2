"""Kafka's assignors, the jar's and plug-ins, called without a group."""
