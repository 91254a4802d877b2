"""Converts the bytes of a JoinGroup response to a GroupView, in bulk.

A member whose bytes cannot be decoded is degraded: it keeps what memory has of it, or is empty. No bytes of a member
can make this module raise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray, Memory
from bellwether_kafka.protocol import bulk
from bellwether_kafka.protocol.bulk import ClaimColumns, SubscriptionColumns
from bellwether_kafka.protocol.messages import RACK_AFFINITY, read_rack_affinity


@dataclass(frozen=True, slots=True, eq=False)
class DecodedGroup:
    """A group's decoded bytes in columns, before they are related to a cluster. Rows are `members`. `racks` are those
    that members send, or else those of the configuration; `leader_only` marks members that then fetch from leaders
    only."""

    raw: shared.RawGroup
    members: tuple[shared.RawMember, ...]
    columns: SubscriptionColumns
    claims: ClaimColumns
    racks: Sequence[str | None]
    leader_only: Sequence[bool]


def decode_group(raw: shared.RawGroup) -> DecodedGroup:
    """Decodes each member except Bellwether's own, once."""
    members = raw.others
    columns = bulk.read_subscriptions([m.metadata for m in members])
    racks = [*columns.rack]
    if raw.protocol == RACK_AFFINITY:
        racks = [rack or read_rack_affinity(data) for rack, data in zip(racks, columns.user_data, strict=True)]
    racks, leader_only = shared.racks_of(members, racks)
    return DecodedGroup(
        raw=raw,
        members=members,
        columns=columns,
        claims=bulk.read_claims(raw.protocol, columns),
        racks=racks,
        leader_only=leader_only,
    )


def topics_wanted(raw: shared.RawGroup) -> tuple[str, ...]:
    """Returns all subscribed topics, sorted: the topics whose metadata the leader must read. Undecodable members are
    skipped."""
    columns = bulk.read_subscriptions([m.metadata for m in raw.others])
    return tuple(sorted({topic for topics in columns.topic_lists for topic in topics}))


def group_view(
    decoded: DecodedGroup, cluster: ClusterView, memory: Memory, *, cooperative: bool, kind: shared.ClaimKind
) -> GroupView:
    """Returns the group of this rebalance in the coordinates of `cluster`. `kind` is what claims mean under its
    protocol.

    `cluster` must be `with_leaders` if a member is `leader_only`.

    `cooperative`: members of this protocol keep consuming during a rebalance. Then a member that did not itself rejoin
    (static, same id, same bytes as before; docs/internals/broker-behaviour.md#states) or whose bytes are unreadable is
    assumed to consume what was last delivered to it, whatever its bytes are.
    """
    raw, columns = decoded.raw, decoded.columns
    degraded = [(m, memory.find(decoded.members[m].key)) for m in sorted(columns.errors)]
    members = _members(decoded, dict(degraded))
    topic_sets, topic_set = _topic_sets(columns, cluster, degraded)
    remembered = memory.owner_in(cluster, members.keys)
    claiming, claimed = _clean(decoded.claims, cluster)
    claims = shared.Claims(member=claiming, flat=claimed, generation=decoded.claims.generation)
    silent = _silent(decoded, memory) if cooperative else np.zeros(len(members), dtype=np.bool_)
    if silent.any():
        reporting = ~silent[claims.member]
        claims = replace(claims, member=claims.member[reporting], flat=claims.flat[reporting])
    delivered = shared.Delivered.of(memory, cluster, members.keys, remembered)
    checked = shared.check_claims(claims, delivered, kind, generation=raw.generation, resting=raw.resting)
    member, flats, asked = claims.member, claims.flat, checked.asked
    if not checked.kept.all():
        member, flats, asked = member[checked.kept], flats[checked.kept], asked[checked.kept]
    member, flats, asked = _from_memory(silent, remembered, member, flats, asked)
    generation = checked.generation.copy()
    generation[silent] = memory.generation
    former_life = memory.generation >= raw.generation + raw.resting
    return GroupView(
        group_id=raw.group_id,
        generation=raw.generation,
        protocol=raw.protocol,
        members=members,
        topic_sets=topic_sets,
        topic_set=topic_set,
        rack=members.rack_codes(cluster),
        claims=flats.astype(np.int32),
        claims_first=shared.starts(member, len(members)),
        claim_generation=generation,
        remembered=remembered,
        by_id=members.by_id,
        remembered_generation=shared.NO_GENERATION if former_life else memory.generation,
        claim_asked=asked,
        refused=checked.refused,
    )


def recall(generation: int, protocol: str, cluster: ClusterView, described: Sequence[shared.AssignedMember]) -> Memory:
    """Rebuilds memory from DescribeGroups of a stable group, for a leader that just took over
    (docs/internals/wire-formats.md#claims-of-a-member). Its cluster also has assigned partitions that no longer exist:
    members consume them until a rebalance takes them away."""
    members = tuple(shared.RawMember(d.member_id, d.instance_id, d.metadata) for d in described)
    decoded = decode_group(shared.RawGroup("", generation, protocol, members))
    given = bulk.read_assignments([d.assignment for d in described])
    cluster = shared.extended(cluster, shared.claimed_sizes(given))
    topic = np.array([cluster.index.get(name, NOBODY) for name in given.topic_names], dtype=np.int64)[given.topic]
    exists = topic != NOBODY
    topic, partition, member = topic[exists], given.partition[exists], given.member[exists]
    real = (partition >= 0) & (partition < cluster.counts[topic]) if len(topic) else np.zeros(0, dtype=np.bool_)
    owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    owner[cluster.first[topic[real]] + partition[real]] = member[real]
    echoes = {members[m].key: data for m, data in enumerate(given.user_data) if data}
    views, digests = _members(decoded, {}), static_digests(members)
    memory = Memory.of(generation, cluster, owner, views, digests=digests, echoes=echoes)
    return replace(memory, holder=_holders(decoded, cluster, owner))


def _holders(decoded: DecodedGroup, cluster: ClusterView, owner: IntArray) -> IntArray:
    """Returns, per flat partition without an owner, the member that claimed it when it joined: it may still have it."""
    claims, limit = decoded.claims, decoded.raw.generation
    member, flats = _clean(claims, cluster)
    fit = owner[flats] == NOBODY
    if limit >= 0:
        fit &= claims.generation[member] < limit
    member, flats = member[fit], flats[fit]
    order = np.argsort(claims.generation[member], kind="stable")
    holder = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    holder[flats[order]] = member[order]
    return holder


def static_digests(members: Sequence[shared.RawMember]) -> dict[str, bytes]:
    """Returns fingerprints of the metadata of static members, by key."""
    return {m.key: shared.digest(m.metadata) for m in members if m.instance_id}


def _members(decoded: DecodedGroup, remembered: dict[int, shared.MemberView | None]) -> shared.Members:
    columns = decoded.columns
    lists = (*columns.topic_lists, ())
    topics = [lists[t] for t in columns.topic_list.tolist()]
    racks, leader_only = [*decoded.racks], [*decoded.leader_only]
    generations = decoded.claims.generation.tolist()
    degraded: list[str | None] = [None] * len(topics)
    for m, reason in columns.errors.items():
        last = remembered.get(m)
        topics[m] = last.topics if last else ()
        if last is not None and last.rack and not last.leader_only:
            racks[m], leader_only[m] = last.rack, False
        generations[m], degraded[m] = shared.NO_GENERATION, reason
    ids, instance_ids = [m.member_id for m in decoded.members], [m.instance_id for m in decoded.members]
    client_ids = [m.client_id for m in decoded.members]
    return shared.Members(ids, instance_ids, topics, racks, generations, degraded, leader_only, client_ids)


def _topic_sets(
    columns: SubscriptionColumns, cluster: ClusterView, degraded: Sequence[tuple[int, shared.MemberView | None]]
) -> tuple[tuple[IntArray, ...], IntArray]:
    """Returns the distinct subscriptions as topic indices, and the row of each member."""
    sets: dict[tuple[int, ...], int] = {}

    def row(topics: Sequence[str]) -> int:
        wanted = tuple(sorted({cluster.index[t] for t in topics if t in cluster.index}))
        return sets.setdefault(wanted, len(sets))

    of_list = np.array([*map(row, columns.topic_lists), NOBODY], dtype=np.int32)
    topic_set = of_list[columns.topic_list]
    for m, last in degraded:
        topic_set[m] = row(last.topics if last else ())
    return tuple(np.array(s, dtype=np.int32) for s in sets), topic_set


def _clean(claims: ClaimColumns, cluster: ClusterView) -> tuple[LongArray, LongArray]:
    """Returns (member, flat partition) of the plausible claims, sorted and without duplicates (rule 3 of
    docs/internals/wire-formats.md#claims-of-a-member). Claims to topics that the member no longer subscribes to are
    included."""
    nothing: LongArray = np.zeros(0, dtype=np.int64)
    if not len(claims.member) or not len(cluster.topics):
        return nothing, nothing
    topic = np.array([cluster.index.get(name, NOBODY) for name in claims.topic_names], dtype=np.int64)[claims.topic]
    real = (topic >= 0) & (claims.partition >= 0) & (claims.partition < cluster.counts[topic])
    member = claims.member[real].astype(np.int64)
    code = member * cluster.partition_total + cluster.first[topic[real]] + claims.partition[real]
    if (code[1:] <= code[:-1]).any():
        code = np.unique(code)
    return np.divmod(code, max(1, cluster.partition_total))


def _silent(decoded: DecodedGroup, memory: Memory) -> BoolArray:
    """Marks members whose bytes do not reflect the present: undecodable ones, and those that did not rejoin."""
    silent, resting = np.zeros(len(decoded.members), dtype=np.bool_), decoded.raw.resting
    for m, raw in [(m, raw) for m, raw in enumerate(decoded.members) if raw.instance_id or resting]:
        last = memory.find(raw.key)
        same = last is not None and last.member_id == raw.member_id
        silent[m] = same and (resting or memory.digests.get(raw.key) == shared.digest(raw.metadata))
    silent[list(decoded.columns.errors)] = True
    return silent


def _from_memory(
    silent: BoolArray, remembered: IntArray, member: LongArray, flats: LongArray, asked: IntArray
) -> tuple[LongArray, LongArray, IntArray]:
    """Adds what was delivered to silent members as their claims."""
    if not silent.any():
        return member, flats, asked
    delivered = np.flatnonzero((remembered != NOBODY) & silent[remembered])
    member, flats = np.concatenate([member, remembered[delivered]]), np.concatenate([flats, delivered])
    asked = np.concatenate([asked, np.zeros(len(delivered), dtype=np.int32)])
    order = np.lexsort((flats, member))
    return member[order], flats[order], asked[order]
