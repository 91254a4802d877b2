"""Bellwether, a rebalance coordinator for Kafka.

The sub-packages are links to the folders of the same names at the top of the repository; ARCHITECTURE.md says why.
`bellwether_kafka.plugins` is the stable interface for plug-ins. Everything else may change from release to release.
"""
