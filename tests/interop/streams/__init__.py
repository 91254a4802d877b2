"""Kafka Streams applications on real brokers."""
