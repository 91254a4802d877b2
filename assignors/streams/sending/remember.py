"""Converts a decision to the memory of it: what each thread was sent, and the identity of these threads."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, MemberView, Memory, digest, racks_of
from bellwether_kafka.assignors.streams import members
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.sending.encode import Outgoing
from bellwether_kafka.protocol.primitives import ProcessId, TaskId


def remember(
    decoded: members.DecodedStreams,
    tasks: TaskMap,
    out: Outgoing,
    last: members.StreamsMemory,
    now_ms: int,
    homes: Mapping[TaskId, members.Home],
    records: Mapping[ProcessId, members.ProcessRecord],
    claims: members.ThreadClaims,
    destinations: members.Destinations | None,
) -> members.StreamsMemory:
    """Returns the memory of what `out` sends, to be stored once it has been delivered."""
    threads = _records(decoded, last, now_ms)
    plan = Memory.of(decoded.raw.generation, tasks.cluster, out.owner(tasks), _members(decoded, last))
    claimed = _claimed(claims, tasks)
    asked = np.where(claimed == plan.owner, 0, claims.asked).astype(np.int32)
    return members.StreamsMemory(
        plan=plan,
        threads=MappingProxyType(threads),
        led=True,
        processes=len({record.process_id for record in threads.values()}),
        homes=homes,
        records=records,
        owned=replace(plan, owner=claimed, asked=asked),
        destinations=destinations,
    )


def _claimed(claims: members.ThreadClaims, tasks: TaskMap) -> IntArray:
    """Returns, per flat partition, the row of the member that owns it by the latest claim, NOBODY if none does."""
    owner: IntArray = np.full(tasks.cluster.partition_total, NOBODY, dtype=np.int32)
    order = np.argsort(claims.generation[claims.member], kind="stable")
    owner[claims.flat[order]] = claims.member[order]
    owner.flags.writeable = False
    return owner


def _members(decoded: members.DecodedStreams, last: members.StreamsMemory) -> list[MemberView]:
    """Returns the members. One whose subscription cannot be read keeps the topics and the rack that it had."""
    columns = decoded.columns
    lists = (*columns.topic_lists, ())
    racks, leader_only = racks_of(decoded.members, columns.rack)
    views: list[MemberView] = []
    for m, raw in enumerate(decoded.members):
        before = last.plan.find(raw.key) if m in columns.errors else None
        if before is not None:
            views.append(before._replace(member_id=raw.member_id, instance_id=raw.instance_id))
            continue
        topics = lists[columns.topic_list[m]]
        views.append(MemberView(raw.member_id, raw.instance_id, topics, racks[m], leader_only=leader_only[m]))
    return views


def _records(
    decoded: members.DecodedStreams, last: members.StreamsMemory, now_ms: int
) -> Mapping[str, members.ThreadRecord]:
    """Returns the threads of this rebalance. One that cannot be read stays as remembered."""
    bad, infos = decoded.bad, decoded.infos
    records: dict[str, members.ThreadRecord] = {}
    for m, raw in enumerate(decoded.members):
        process = infos.process[m]
        if m in bad:
            if raw.key in last.threads:
                records[raw.key] = last.threads[raw.key]
        elif process is not None:
            joined = last.joined_at_ms(raw.key, raw.metadata, now_ms)
            version, latest, joins = int(infos.version[m]), int(infos.latest[m]), int(infos.joins[m])
            records[raw.key] = members.ThreadRecord(process, version, latest, digest(raw.metadata), joined, joins)
    return records
