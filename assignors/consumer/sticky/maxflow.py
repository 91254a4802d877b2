"""A small maximum flow: how many partitions of each rack signature can go to each rack.

Partitions are grouped by the racks that hold them and members by their rack, so the network has a handful of nodes
whatever the size of the group. The result is the best number of local partitions, which KIP-881's greedy pass may miss.
"""

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray, Network


def rack_quotas(supply: LongArray, held: BoolArray, room: LongArray, extra: LongArray, spare: int) -> LongArray:
    """How many partitions of each signature (row) go to each rack (column), in total as many as possible.

    `supply` counts partitions per signature, `held` says which racks hold it, `room` counts places up to the lower
    quota per rack, `extra` members per rack that may take one more, of which the whole group has only `spare`.
    """
    rows, racks = len(supply), len(room)
    sink, extras = rows + racks, rows + racks + 1
    network = Network(rows + racks + 2)
    network.excess[:rows] = supply.tolist()
    network.excess[sink] = -int(supply.sum())
    row, rack = np.nonzero(held & (supply > 0)[:, None])
    arcs = network.add(row.tolist(), (rows + rack).tolist(), supply[row].tolist(), [0] * len(row))
    for r in range(racks):
        network.add([rows + r] * 2, [sink, extras], [int(room[r]), int(extra[r])], [0, 0])
    network.add([extras], [sink], [spare], [0])
    network.saturate()
    flow = np.zeros((rows, racks), dtype=np.int64)
    flow[row, rack] = network.flow(arcs)
    return flow
