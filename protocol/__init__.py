"""The bytes that clients embed in JoinGroup and SyncGroup requests, as dataclasses and as columns."""

from bellwether_kafka.protocol.describe import blob_to_json
