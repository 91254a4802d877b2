"""Kafka's own unit tests of its assignors and codecs, with ours in their place."""
