"""Rack questions that every rack-aware consumer assignor asks (KIP-881): does it matter, and what is local."""

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, BoolArray, ClusterView, IntArray, LongArray


def rack_matters(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray | slice) -> bool:
    """Whether placing these partitions (flat numbers) on members in these racks can gain anything from racks.

    They can if some member has a rack, some member rack holds a replica, and the partitions do not all have the same
    set of replica racks. Offline replicas count (docs/reference/assignors.md#range).
    """
    known = np.unique(racks[racks >= 0])
    if not len(known):
        return False
    signatures = cluster.signature[flats]
    if not len(signatures):
        return False
    present = np.flatnonzero(np.bincount(signatures, minlength=len(cluster.signature_racks)))
    held = cluster.signature_racks[present]
    union: BoolArray = np.any(held, axis=0)
    return bool(np.any(union[known]) and not np.all(held == union))


def mismatched(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> BoolArray:
    """Where the member (of which `racks` has the rack, one per partition) names a rack that holds no replica of it; a
    member without a rack is neutral, never mismatched."""
    if not cluster.racks:
        return np.asarray(racks != NO_RACK)
    local = (racks >= 0) & cluster.signature_racks[cluster.signature[flats], np.maximum(racks, 0)]
    return np.asarray((racks != NO_RACK) & ~local)
