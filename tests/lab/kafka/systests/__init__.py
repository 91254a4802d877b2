"""Kafka's system tests of Streams, led by Java and by Bellwether: `make kafka-systests`."""
