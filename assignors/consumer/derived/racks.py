"""Rack checks for the consumer assignors: whether racks matter, and what is local."""

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, BoolArray, ClusterView, IntArray, LongArray


def rack_matters(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> bool:
    """Returns whether members in these racks differ in how many of these flat partitions they read from another rack.

    KIP-881 also asks whether the partitions differ in their replica racks, because Java's algorithm only exchanges some
    for others. That would leave the only partition of a topic in the wrong rack for good.
    """
    signatures = np.flatnonzero(np.bincount(cluster.signature[flats], minlength=len(cluster.signature_racks)))
    remote = remote_racks(cluster)[np.ix_(signatures, np.unique(racks))]
    return bool((remote != remote[:, :1]).any())


def remote_racks(cluster: ClusterView) -> BoolArray:
    """Returns `[signature, rack]`: whether a member in that rack reads a partition with these replica racks from
    another rack. A member without a rack never does, and nobody does if the replica racks are unknown.

    NO_RACK and FOREIGN_RACK, as negative indices, are the last columns.
    """
    rows, racks = cluster.signature_racks.shape
    remote: BoolArray = np.ones((rows, racks + 2), dtype=np.bool_)
    remote[:, :racks] = ~cluster.signature_racks
    remote[:, NO_RACK] = False
    remote[~cluster.signature_racks.any(axis=1)] = False
    return remote


def mismatched(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> BoolArray:
    """Marks partitions that their member reads from another rack. `racks` has the rack of each partition's member."""
    return np.asarray(remote_racks(cluster)[cluster.signature[flats], racks])
