"""Follows the absence of a member with which an evacuation ends, from what DescribeGroups shows. Pure: `now_ms` is an
argument.

    emptying -> empty -> away -> back, which ends the order

A member that returns gets a new member id, whether it is static or not. A new id with one of its names therefore shows
that it is back, even if the old id is still a member: static members and threads of Kafka Streams do not leave when
they stop. This counts only if the member was empty or away before, or has no work under the new id. If it has work
under the new id, its session expired in between, and the evacuation continues.

Threads of Kafka Streams, and cooperative consumers of librdkafka without partitions, do not leave when they stop
(docs/internals/client-quirks.md). The rebalance in which their successors join would wait until their sessions time
out, so Bellwether removes those that were empty. This is justified because the operator announced the stop and a
successor joined under the same client id, which no other member had. If such a member is alive after all, it rejoins
and has lost nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bellwether_kafka.coordinator.control.records import Absence, PlacementOrder, Stage, Until
from bellwether_kafka.coordinator.membership import REBALANCING, DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, process_in_client_id, reported_process
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition


@dataclass(frozen=True, slots=True)
class AbsenceUpdate:
    """The absence after one description of the group. `ended` is why its order ends now, "" if it does not. `remove`
    are members to remove from the group for the order."""

    absence: Absence | None
    ended: str = ""
    remove: tuple[str, ...] = ()


def absence_update(order: PlacementOrder, before: Absence | None, answer: DescribeAnswer, now_ms: int) -> AbsenceUpdate:
    """Returns the absence of an order that ends with one, after this answer. During a rebalance DescribeGroups omits
    subscriptions and assignments, so only a returned member can be recognised."""
    if answer.error or answer.state not in {GroupState.STABLE, *REBALANCING}:
        return AbsenceUpdate(before)
    at_rest = answer.state == GroupState.STABLE
    absence = before or _begun(order, answer, now_ms)
    present = _present(order, absence, answer)
    ids = frozenset(member.member_id for member in present)
    new = ids - frozenset(absence.members)
    if absence.stage is not Stage.EMPTYING and new:
        return AbsenceUpdate(absence, "it is back", remove=left_behind(order, absence, answer))
    partitions = owned(answer, ids) if at_rest else None
    if partitions is None:
        return AbsenceUpdate(before or (_seen(absence, present, answer) if ids else None))
    if absence.stage is Stage.EMPTYING and absence.members and not partitions and ids and new == ids:
        return AbsenceUpdate(absence, "it is back")  # it has only new ids, and no work
    update = _moved_on(absence, present, answer, partitions, now_ms)
    if update.stage is Stage.AWAY and order.until is Until.REMOVED:
        return AbsenceUpdate(update, "it is removed")
    if (
        update.stage is Stage.AWAY
        and update.members
        and not update.names
        and order.where.partition(":")[2] in update.members
    ):
        return AbsenceUpdate(update, "it is gone, and nothing would identify it when it comes back")
    removed = order.until is Until.REMOVED and update.stage is Stage.EMPTY
    return AbsenceUpdate(update, remove=update.members if removed else ())


def left_behind(order: PlacementOrder, absence: Absence, answer: DescribeAnswer) -> tuple[str, ...]:
    """Returns the stopped members for which a rebalance waits although their successors have joined. Each thread of a
    process has its own successor, and these join one after another. Empty unless the rebalance waits for members:
    those of a completed generation have rejoined and are alive."""
    if answer.error or answer.state != GroupState.PREPARING or absence.stage is not Stage.EMPTY:
        return ()
    present = _present(order, absence, answer)
    old = [m for m in present if m.member_id in absence.members]
    new = {m.client_id for m in present if m.member_id not in absence.members}
    if len(absence.members) == 1:
        return tuple(m.member_id for m in old if new)
    # If several have the same client id, it is unknown which of them has a successor.
    called = Counter(m.client_id for m in old)
    return tuple(
        m.member_id for m in old if m.client_id in new.intersection(absence.names) and called[m.client_id] == 1
    )


def owned(answer: DescribeAnswer, member_ids: Iterable[str]) -> frozenset[TopicPartition] | None:
    """Returns the partitions of these members, in an application those of active tasks. None if the group is not
    stable or an assignment cannot be decoded."""
    if answer.error or answer.state != GroupState.STABLE:
        return None
    wanted = set(member_ids)
    try:
        return frozenset(
            partition
            for m in answer.members
            if m.member_id in wanted and m.assignment
            for partition in ConsumerProtocolAssignment.decode(m.assignment).partitions
        )
    except RemoteProtocolError:
        return None


def handed_over(had: Iterable[TopicPartition], answer: DescribeAnswer, member_ids: Iterable[str]) -> bool:
    """Returns whether these members have no partitions left and others have all of `had`. Then no further rebalance
    follows, which would wait for them if they stopped."""
    wanted = set(member_ids)
    others = owned(answer, [m.member_id for m in answer.members if m.member_id not in wanted])
    return owned(answer, wanted) == frozenset() and others is not None and others.issuperset(had)


def _begun(order: PlacementOrder, answer: DescribeAnswer, now_ms: int) -> Absence:
    """Returns the absence as it begins: AWAY if no such member is in a stable group, else EMPTYING."""
    begun = Absence(order.target, order.where, order.at_ms, order.expires_ms, Stage.EMPTYING, now_ms)
    there = answer.state != GroupState.STABLE or any(_is_meant(m, order, answer.protocol) for m in answer.members)
    return begun if there else replace(begun, stage=Stage.AWAY)


def _moved_on(
    absence: Absence,
    present: list[DescribedMember],
    answer: DescribeAnswer,
    partitions: frozenset[TopicPartition],
    now_ms: int,
) -> Absence:
    ids = frozenset(member.member_id for member in present)
    stage = Stage.AWAY if not ids else Stage.EMPTYING if partitions else Stage.EMPTY
    moved = replace(absence, stage=stage, since_ms=absence.since_ms if stage is absence.stage else now_ms)
    return _seen(moved, present, answer) if ids else moved


def _seen(absence: Absence, present: list[DescribedMember], answer: DescribeAnswer) -> Absence:
    """Returns the absence with the ids and names of these members. They are recorded even during the order's first
    rebalance, so that members that join later count as new."""
    ids = frozenset(member.member_id for member in present)
    names = frozenset(name for member in present for name in _names(member, ids, answer))
    return replace(absence, members=tuple(sorted(ids)), names=tuple(sorted(names | frozenset(absence.names))))


def _present(order: PlacementOrder, absence: Absence, answer: DescribeAnswer) -> list[DescribedMember]:
    """Returns the members named by the order, and those known to be of the same process or client."""
    protocol, names = answer.protocol, set(absence.names)
    meant = [m for m in answer.members if _is_meant(m, order, protocol)]
    ids = frozenset(m.member_id for m in meant)
    names |= {name for member in meant for name in _names(member, ids, answer)}
    return [
        m
        for m in answer.members
        if m.member_id in ids or m.member_id in absence.members or names.intersection(_called(m, protocol))
    ]


def _is_meant(member: DescribedMember, order: PlacementOrder, protocol: str) -> bool:
    kind, _, name = order.where.partition(":")
    if kind != "member":
        return False
    threads = member.client_id.startswith(f"{name}-StreamThread-")
    return threads or name in (member.member_id, *_called(member, protocol))


def _called(member: DescribedMember, protocol: str) -> set[str]:
    """Returns the member's names that survive a restart. During a rebalance, a Streams thread's process id is taken
    from its client id, which contains it unless `client.id` is set."""
    process = reported_process(member.metadata, protocol) or process_in_client_id(member.client_id)
    return {name for name in (member.instance_id, process, member.client_id) if name}


def _names(member: DescribedMember, own: frozenset[str], answer: DescribeAnswer) -> set[str]:
    """Returns the same as `_called`, without a client id that members outside of `own` also have."""
    called = _called(member, answer.protocol)
    shared = any(m.client_id == member.client_id for m in answer.members if m.member_id not in own)
    return called - {member.client_id} if shared else called
