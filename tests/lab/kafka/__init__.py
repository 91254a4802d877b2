"""Kafka's own unit tests of its assignors and codecs, with Bellwether's in their place."""
