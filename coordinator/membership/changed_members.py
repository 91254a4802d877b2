"""Detects members of a stable group that have changed since the plan was made (KAFKA-12759): a static member may return
within its session with other topics or another rack, and the broker then keeps the generation and informs no leader.
Pure.

Only topics and racks are compared. Partitions, userData and the generation differ after every ordinary restart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinedMember
from bellwether_kafka.coordinator.membership.shown import ShownGroup
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What a changed member now subscribes to. `reason` is part of a sentence."""

    instance_id: str
    topics: frozenset[str]
    rack: str
    reason: str


def may_change(planned: Sequence[JoinedMember], own_member_id: str) -> bool:
    """Returns whether a member could change without a rebalance: only static members can.

    A member sends its topics and rack only in JoinGroup. In a stable group the broker answers a JoinGroup with the
    existing generation if it names a member id and its bytes have not changed; other bytes, or a new id without an
    instance id, begin a rebalance. Only a static member that comes back without an id replaces itself, whatever its
    bytes (GroupMetadataManager of Kafka 4: classicGroupJoinExistingMember and
    updateStaticMemberThenRebalanceOrCompleteJoin).
    """
    return any(m.instance_id is not None and m.member_id != own_member_id for m in planned)


def changed_members(planned: Sequence[JoinedMember], group: ShownGroup, own_member_id: str) -> tuple[MemberChange, ...]:
    """Returns the static members whose topics or rack differ from the plan's. Members whose bytes cannot be decoded are
    left out."""
    before = {m.instance_id: m for m in planned if m.instance_id is not None and m.member_id != own_member_id}
    changes = (_change(before[m.instance_id], m) for m in group.members if m.instance_id in before)
    return tuple(change for change in changes if change is not None)


def sentence(changes: Iterable[MemberChange]) -> str:
    return "; ".join(change.reason for change in changes)


def _change(planned: JoinedMember, now: DescribedMember) -> MemberChange | None:
    if planned.metadata == now.metadata or not now.metadata:
        return None
    try:
        before = ConsumerProtocolSubscription.decode(planned.metadata)
        after = ConsumerProtocolSubscription.decode(now.metadata)
    except RemoteProtocolError:
        return None
    had, has = frozenset(before.topics), frozenset(after.topics)
    racks = before.rack_id or "", after.rack_id or ""
    if had == has and racks[0] == racks[1]:
        return None
    what = [f"subscribes to {_names(has - had)}, too"] * bool(has - had)
    what += [f"subscribes to {_names(had - has)} no more"] * bool(had - has)
    what += [f"is in rack '{racks[1]}' instead of '{racks[0]}'"] * (racks[0] != racks[1])
    instance = now.instance_id or ""
    return MemberChange(instance, has, racks[1], f"static member {instance} has returned and {', '.join(what)}")


def _names(topics: Iterable[str]) -> str:
    names = sorted(topics)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
