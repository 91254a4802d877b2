"""Which process runs which task now: the partitions that threads own, without impossible claims.

A thread owns what it claims, if `shared.check_claims` accepts it, as for consumers. A thread that cannot have claimed
anything (static and not rejoined, or unreadable) owns what was last delivered to it.

A consumer reports a generation as its own from its JoinGroup on. If the next rebalance begins before it receives that
generation's plan, it joins again with what it had before, and runs that. (The Java leader ignores generations, so it
believes such claims for ever: docs/internals/streams.md#reading-the-members.)
"""

from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    ClaimKind,
    Claims,
    Delivered,
    IntArray,
    LongArray,
    Refused,
    check_claims,
    digest,
    distinct,
)
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory, owned_partitions
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams

_UNCLAIMED = -2


@dataclass(frozen=True, slots=True, eq=False)
class ThreadClaims:
    """Claims sorted by member row, then flat partition, without duplicates. `generation` is per member. `silent` marks
    members that did not join in this rebalance; `refused` are the claims that are not believed. `asked` is per flat
    partition: how many plans in a row will have asked its claimant to give it up, if this plan asks; 0 if the claimant
    is silent."""

    member: LongArray
    flat: LongArray
    generation: IntArray
    silent: BoolArray
    asked: IntArray
    refused: Refused = field(default_factory=Refused.none)

    def tasks(self, tasks: TaskMap) -> IntArray:
        """Returns the task of each claim, NOBODY for partitions that no task reads."""
        return tasks.task_of[self.flat]


def read_claims(decoded: DecodedStreams, tasks: TaskMap, memory: StreamsMemory) -> ThreadClaims:
    """Returns the claims of all members in the coordinates of `tasks.cluster`."""
    columns, cluster, raw = decoded.columns, tasks.cluster, decoded.raw
    keys = [m.key for m in decoded.members]
    remembered = memory.plan.owner_in(cluster, keys)
    silent = _silent(decoded, memory)
    member, flat = owned_partitions(columns, cluster)
    reporting = ~silent[member]
    claims = Claims(member[reporting], flat[reporting], columns.generation)
    delivered = replace(
        Delivered.of(memory.plan, cluster, keys, remembered),
        holder=memory.owned.owner_in(cluster, keys),
        asked=memory.owned.asked_in(cluster),
    )
    checked = check_claims(claims, delivered, ClaimKind.CONSUMED, generation=raw.generation, resting=raw.resting)
    member, flat = claims.member[checked.kept], claims.flat[checked.kept]
    asked = np.zeros(cluster.partition_total, dtype=np.int32)
    asked[flat] = checked.asked[checked.kept]
    generation = checked.generation.copy()
    given: LongArray = np.flatnonzero((remembered != NOBODY) & silent[remembered] if silent.any() else False)
    member = np.concatenate([member, remembered[given]]).astype(np.int64)
    flat = np.concatenate([flat, given]).astype(np.int64)
    generation[silent] = memory.generation
    total = max(1, cluster.partition_total)
    member, flat = np.divmod(distinct(member * total + flat), total)
    return ThreadClaims(member, flat, generation, silent, asked, checked.refused)


def still_held(tasks: TaskMap, claims: ThreadClaims, holder: IntArray) -> BoolArray:
    """Marks tasks that must not be sent yet because another member still owns one of their partitions
    (docs/internals/streams.md#withholding). `holder[task]` is the row of the member that gets it. That member's own
    claim to a partition wins unless another claim has a later generation."""
    result = np.zeros(tasks.table.size, dtype=np.bool_)
    task = claims.tasks(tasks)
    inside = task != NOBODY
    member, flat, task = claims.member[inside], claims.flat[inside], task[inside]
    other = holder[task] != member
    if not other.any():
        return result
    generation = claims.generation[member]
    theirs = np.full(tasks.cluster.partition_total, _UNCLAIMED, dtype=np.int64)
    mine = np.full(tasks.cluster.partition_total, _UNCLAIMED, dtype=np.int64)
    np.maximum.at(theirs, flat[other], generation[other])
    mine[flat[~other]] = generation[~other]
    contested: LongArray = np.flatnonzero(theirs > mine)
    result[tasks.task_of[contested]] = True
    result[holder == NOBODY] = False
    return result


def _silent(decoded: DecodedStreams, memory: StreamsMemory) -> BoolArray:
    """Marks static members whose bytes did not change (joining changes the unique field), all remembered members of a
    resting group, and unreadable members."""
    silent, resting = np.zeros(len(decoded.members), dtype=np.bool_), decoded.raw.resting
    for m, raw in enumerate(decoded.members):
        if not (raw.instance_id or resting):
            continue
        last = memory.plan.find(raw.key)
        record = memory.threads.get(raw.key)
        same = last is not None and last.member_id == raw.member_id
        silent[m] = same and (resting or (record is not None and record.digest == digest(raw.metadata)))
    silent[list(decoded.columns.errors)] = True
    return silent
