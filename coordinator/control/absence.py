"""Evacuations that are tied to one absence of a member: how far that has come, by what DescribeGroups shows of the
group. Pure: `now_ms` is an argument.

    emptying -> empty -> away -> back, which ends the order

A member that is back has another member id, whether it is static or not, so a new id under one of its names says so,
also where the old one is still counted: static members and threads of Kafka Streams do not leave when they stop. That
is believed of a member that was empty or away before, or has nothing under its new id. One that has work under it has
lost its session meanwhile, and is emptied further.

Threads of Kafka Streams, and cooperative consumers of librdkafka that have nothing, do not leave when they stop
(docs/reference/client-quirks.md). The rebalance in which their successors join would wait for them until their sessions
end, so one that was empty is removed then. The proof is the operator's word that it stops, and its successor under the
same client id, which nobody else had. If it lives after all, it joins again and has lost nothing.
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
    """What one look at the group makes of an absence. `ended`: why its order ends now, "" where it stands on. `remove`
    are members that the order wants removed from the group."""

    absence: Absence | None
    ended: str = ""
    remove: tuple[str, ...] = ()


def absence_update(order: PlacementOrder, before: Absence | None, answer: DescribeAnswer, now_ms: int) -> AbsenceUpdate:
    """The absence of an order that ends with one, after this answer. While the group moves it does not show what its
    members are and have; only a member that is back is seen then."""
    if answer.error or answer.state not in {GroupState.STABLE, *REBALANCING}:
        return AbsenceUpdate(before)
    at_rest = answer.state == GroupState.STABLE
    known = before or _begun(order, answer, now_ms)
    present = _present(order, known, answer)
    ids = frozenset(member.member_id for member in present)
    new = ids - frozenset(known.members)
    if known.stage is not Stage.EMPTYING and new:
        return AbsenceUpdate(known, "it is back", remove=left_behind(order, known, answer))
    held = owned(answer, ids) if at_rest else None
    if held is None:
        return AbsenceUpdate(before or (_seen(known, present, answer) if ids else None))
    if known.stage is Stage.EMPTYING and known.members and not held and ids and new == ids:
        return AbsenceUpdate(known, "it is back")  # under new ids only, and nothing of it runs
    found = _moved_on(known, present, answer, held, now_ms)
    if found.stage is Stage.AWAY and order.until is Until.REMOVED:
        return AbsenceUpdate(found, "it is removed")
    if (
        found.stage is Stage.AWAY
        and found.members
        and not found.names
        and order.where.partition(":")[2] in found.members
    ):
        return AbsenceUpdate(found, "it is gone, and nothing would identify it when it comes back")
    removed = order.until is Until.REMOVED and found.stage is Stage.EMPTY
    return AbsenceUpdate(found, remove=found.members if removed else ())


def left_behind(order: PlacementOrder, known: Absence, answer: DescribeAnswer) -> tuple[str, ...]:
    """The members for which a rebalance waits although their successors have joined it: each thread of a process has a
    successor of its own, and they join one after another. A member of a finished generation is alive."""
    if answer.error or answer.state != GroupState.PREPARING or known.stage is not Stage.EMPTY:
        return ()
    present = _present(order, known, answer)
    old = [m for m in present if m.member_id in known.members]
    new = {m.client_id for m in present if m.member_id not in known.members}
    if len(known.members) == 1:
        return tuple(m.member_id for m in old if new)
    # Of several with one client id nobody knows which one has a successor.
    called = Counter(m.client_id for m in old)
    return tuple(m.member_id for m in old if m.client_id in new.intersection(known.names) and called[m.client_id] == 1)


def owned(answer: DescribeAnswer, member_ids: Iterable[str]) -> frozenset[TopicPartition] | None:
    """The partitions of these members, of an application its active tasks' partitions; None while the group is not at
    rest, or an assignment cannot be read."""
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
    """Whether these members have nothing, and others have all that they had: so they take part in no further rebalance
    for it, which would wait for them if they stopped."""
    wanted = set(member_ids)
    others = owned(answer, [m.member_id for m in answer.members if m.member_id not in wanted])
    return owned(answer, wanted) == frozenset() and others is not None and others.issuperset(had)


def _begun(order: PlacementOrder, answer: DescribeAnswer, now_ms: int) -> Absence:
    """Before the first look: one that is not there then is away already."""
    begun = Absence(order.target, order.where, order.at_ms, order.expires_ms, Stage.EMPTYING, now_ms)
    there = answer.state != GroupState.STABLE or any(_is_meant(m, order, answer.protocol) for m in answer.members)
    return begun if there else replace(begun, stage=Stage.AWAY)


def _moved_on(
    known: Absence,
    present: list[DescribedMember],
    answer: DescribeAnswer,
    held: frozenset[TopicPartition],
    now_ms: int,
) -> Absence:
    ids = frozenset(member.member_id for member in present)
    stage = Stage.AWAY if not ids else Stage.EMPTYING if held else Stage.EMPTY
    found = replace(known, stage=stage, since_ms=known.since_ms if stage is known.stage else now_ms)
    return _seen(found, present, answer) if ids else found


def _seen(known: Absence, present: list[DescribedMember], answer: DescribeAnswer) -> Absence:
    """With the members that are meant. Already while the group moves for the order: who comes later is new."""
    ids = frozenset(member.member_id for member in present)
    names = frozenset(name for member in present for name in _names(member, ids, answer))
    return replace(known, members=tuple(sorted(ids)), names=tuple(sorted(names | frozenset(known.names))))


def _present(order: PlacementOrder, known: Absence, answer: DescribeAnswer) -> list[DescribedMember]:
    """The members that are meant, or are known to be of the same process or client."""
    protocol, names = answer.protocol, set(known.names)
    meant = [m for m in answer.members if _is_meant(m, order, protocol)]
    ids = frozenset(m.member_id for m in meant)
    names |= {name for member in meant for name in _names(member, ids, answer)}
    return [
        m
        for m in answer.members
        if m.member_id in ids or m.member_id in known.members or names.intersection(_called(m, protocol))
    ]


def _is_meant(member: DescribedMember, order: PlacementOrder, protocol: str) -> bool:
    kind, _, name = order.where.partition(":")
    if kind != "member":
        return False
    threads = member.client_id.startswith(f"{name}-StreamThread-")
    return threads or name in (member.member_id, *_called(member, protocol))


def _called(member: DescribedMember, protocol: str) -> set[str]:
    """Its names that outlive a restart. While the group moves the client id of a thread has the process id, unless
    `client.id` is set."""
    process = reported_process(member.metadata, protocol) or process_in_client_id(member.client_id)
    return {name for name in (member.instance_id, process, member.client_id) if name}


def _names(member: DescribedMember, own: frozenset[str], answer: DescribeAnswer) -> set[str]:
    """The same without a client id that others have, too. What has a process id has it in every thread."""
    called = _called(member, answer.protocol)
    shared = any(m.client_id == member.client_id for m in answer.members if m.member_id not in own)
    return called - {member.client_id} if shared else called
