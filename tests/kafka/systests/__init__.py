"""Kafka's system tests of Streams, led by Java and by us: `make kafka-systests`."""
