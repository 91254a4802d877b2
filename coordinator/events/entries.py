"""Converts a plan to entries of the event `assignment`. Pure.

A member is identified by its instance id, which survives a restart, else by its member id; a Streams process by its
process id.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, GroupPlan, IntArray

# Values of `source` in a decision event. Other values are those of fallbacks after a late plan.
PLANNED = "plan"
OBSERVED = "observed"  # made by another leader; the snapshot has the inputs of Bellwether's shadow plan
# A header of a record of weights: the standard error of its bytes_per_s, in the same unit, as text. What a header has
# need not be in a schema, so that releases that do not know it still read the record.
ERROR_HEADER = "standard-error"

UNKNOWN = -1
ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"


def assignment_entries(plan: GroupPlan) -> Iterator[dict[str, Any]]:
    """Yields one entry per partition with an owner in the plan, and one per standby or warm-up copy of a task."""
    keys = [owner.key for owner in plan.owners]
    previous = [keys[owner] if owner != NOBODY else None for owner in plan.before.tolist()]
    yield from active_entries(plan, plan.owner, previous, plan.pending.tolist())
    rack_of = {owner.key: owner.rack for owner in plan.owners}
    for copy in plan.state.copies:
        role, member = WARMUP if copy.warmup else STANDBY, str(copy.process_id)
        yield copy_entry(str(copy.task), role, member, rack_of[member])


def active_entries(
    plan: GroupPlan, owner: IntArray, previous: Sequence[str | None], pending: Sequence[bool]
) -> Iterator[dict[str, Any]]:
    """Yields one entry per partition whose item has an owner in `owner`. All three columns have one value per item."""
    places, target = Places(plan.cluster), owner.tolist()
    keys, racks = [holder.key for holder in plan.owners], [holder.rack for holder in plan.owners]
    for flat, item in enumerate(plan.item_of.tolist()):
        if item == NOBODY or target[item] == NOBODY:
            continue
        yield {
            **places(flat),
            "task": plan.state.task(item),
            "role": ACTIVE,
            "member": keys[target[item]],
            "rack": racks[target[item]],
            "previous": previous[item],
            "withheld": pending[item],
        }


def copy_entry(task: str, role: str, member: str, rack: str | None) -> dict[str, Any]:
    """Returns the entry of a standby or warm-up copy. `task` is a task's name, which ends with its partition."""
    return {
        "topic": "",
        "partition": int(task.rpartition("_")[2]),
        "task": task,
        "role": role,
        "member": member,
        "rack": rack,
        "previous": None,
        "withheld": False,
        "leader_rack": None,
        "replica_racks": [],
    }


class Places:
    """Returns names and racks of flat partitions, for entries of events."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._topic: IntArray = cluster.topic_of()
        self._replica_racks = [[cluster.racks[r] for r in np.flatnonzero(row)] for row in cluster.replica_racks]

    def __call__(self, flat: int) -> dict[str, Any]:
        cluster = self._cluster
        topic, leader = int(self._topic[flat]), int(cluster.leader_rack[flat])
        return {
            "topic": cluster.topics[topic],
            "partition": flat - int(cluster.first[topic]),
            "leader_rack": cluster.racks[leader] if leader != NO_RACK else None,
            "replica_racks": self._replica_racks[int(cluster.signature[flat])],
        }
