"""Bytes to frozen dataclasses and back: the blobs that Kafka clients embed in JoinGroup and SyncGroup. No IO, no clock."""
