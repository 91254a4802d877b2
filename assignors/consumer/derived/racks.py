"""Rack checks for all rack-aware consumer assignors (KIP-881): whether racks matter, and what is local."""

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, BoolArray, ClusterView, IntArray, LongArray


def rack_matters(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray | slice) -> bool:
    """Returns whether rack awareness can improve the placement of these flat partitions on members in these racks.

    It can if at least one member has a rack that holds a replica, and the partitions do not all have the same set of
    replica racks. Offline replicas count (docs/reference/assignors.md#range).
    """
    member_racks = np.unique(racks[racks >= 0])
    if not len(member_racks):
        return False
    signatures = cluster.signature[flats]
    if not len(signatures):
        return False
    present = np.flatnonzero(np.bincount(signatures, minlength=len(cluster.signature_racks)))
    replica_racks = cluster.signature_racks[present]
    union: BoolArray = np.any(replica_racks, axis=0)
    return bool(np.any(union[member_racks]) and not np.all(replica_racks == union))


def mismatched(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> BoolArray:
    """Marks partitions whose member names a rack that holds no replica. `racks` has the rack of each partition's
    member. A member without a rack is never mismatched."""
    if not cluster.racks:
        return np.asarray(racks != NO_RACK)
    local = (racks >= 0) & cluster.signature_racks[cluster.signature[flats], np.maximum(racks, 0)]
    return np.asarray((racks != NO_RACK) & ~local)
