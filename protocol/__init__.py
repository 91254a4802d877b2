"""Bytes to frozen dataclasses and back: the blobs that clients embed in JoinGroup and SyncGroup. No IO, no clock."""
