"""What a DescribeGroups answer shows of members, and which have changed since the plan was made. Pure.

A static member may return within its session with other topics or another rack, and the broker then keeps the
generation and informs no leader (KAFKA-12759). Two processes under one instance id fence each other. Only topics and
racks are compared: partitions, userData and the generation differ after every ordinary restart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.events import (
    REBALANCING,
    DescribeAnswer,
    DescribedMember,
    GroupState,
    JoinedMember,
    RebalanceWanted,
)
from bellwether_kafka.coordinator.membership.role import name_of
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

NAMES_SHOWN = 3
SEEN_MAX = 4  # to and fro, twice


class NotShownError(Exception):
    """Raised if the answer does not include subscriptions and assignments; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """What the members of a group subscribe to and own. Created by `shown` only."""

    state: str
    protocol: str
    members: tuple[DescribedMember, ...]


def shown(answer: DescribeAnswer) -> ShownGroup:
    """Returns the group that the answer describes. Raises NotShownError for an error, and for a state in which brokers
    leave subscriptions and assignments out."""
    if answer.error:
        raise NotShownError(f"DescribeGroups was answered with {name_of(answer.error)}")
    if answer.state in {*REBALANCING, GroupState.DEAD, ""}:
        raise NotShownError(f"what members have is shown when the group is Stable; it is {answer.state or 'unknown'}")
    return ShownGroup(answer.state, answer.protocol, answer.members)


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What a changed member now subscribes to. `reason` is part of a sentence."""

    instance_id: str
    topics: frozenset[str]
    rack: str
    reason: str

    @property
    def wanted(self) -> RebalanceWanted:
        return RebalanceWanted(self.reason, f"member {self.instance_id}")


def may_change(planned: Sequence[JoinedMember], own_member_id: str) -> bool:
    """Returns whether a member could change without a rebalance: only static members can.

    A member sends its topics and rack only in JoinGroup. In a stable group the broker answers a JoinGroup with the
    existing generation if it names a member id and its bytes have not changed; other bytes, or a new id without an
    instance id, begin a rebalance. Only a static member that comes back without an id replaces itself, whatever its
    bytes (GroupMetadataManager of Kafka 4: classicGroupJoinExistingMember and
    updateStaticMemberThenRebalanceOrCompleteJoin).
    """
    return any(m.instance_id is not None and m.member_id != own_member_id for m in planned)


def changed_members(
    planned: Sequence[JoinedMember], group: ShownGroup, own_member_id: str, *, racks: bool = True
) -> tuple[MemberChange, ...]:
    """Returns the static members whose topics or rack differ from the plan's. Members whose bytes cannot be decoded are
    left out. `racks`: the policy reads them; otherwise another rack changes nothing."""
    before = {m.instance_id: m for m in planned if m.instance_id is not None and m.member_id != own_member_id}
    changes = (_change(before[m.instance_id], m, racks=racks) for m in group.members if m.instance_id in before)
    return tuple(change for change in changes if change is not None)


@dataclass(slots=True)
class Duels:
    """Finds instance ids that go to and fro between two processes. A pod that is made anew has another address each
    time and never one that it had before."""

    _seen: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by instance id, without repetitions
    _named: set[str] = field(default_factory=set)

    def shown(self, group: ShownGroup, own_member_id: str) -> tuple[str, ...]:
        """Takes a description; returns a sentence for each duel that has not been named yet."""
        static = {m.instance_id: m for m in group.members if m.instance_id and m.member_id != own_member_id}
        self._seen = {instance: self._after(instance, m) for instance, m in static.items()}
        new = [instance for instance in static if self._is_duel(instance) and instance not in self._named]
        self._named.update(new)
        return tuple(map(self._sentence, new))

    def _after(self, instance_id: str, member: DescribedMember) -> list[tuple[str, str]]:
        who = f"{member.client_id or member.member_id} on {member.client_host}", _subscribed(member.metadata)
        before = self._seen.get(instance_id, [])
        return before if before[-1:] == [who] else [*before, who][-SEEN_MAX:]

    def _is_duel(self, instance_id: str) -> bool:
        seen = self._seen[instance_id]
        return len(seen) == SEEN_MAX and seen[0] == seen[2] and seen[1] == seen[3]

    def _sentence(self, instance_id: str) -> str:
        (one, first), (other, second) = self._seen[instance_id][-2:]
        what = "" if first == second else f" (one subscribes to {first}, the other to {second})"
        return (
            f"two processes share group.instance.id '{instance_id}' and fence each other: {one}, and {other}{what};"
            " give each an id of its own"
        )


def _subscribed(metadata: bytes) -> str:
    try:
        subscription = ConsumerProtocolSubscription.decode(metadata)
    except RemoteProtocolError:
        return ""
    rack = f" in rack '{subscription.rack_id}'" if subscription.rack_id else ""
    return listed(sorted(subscription.topics), NAMES_SHOWN) + rack


def sentence(changes: Iterable[MemberChange]) -> str:
    return "; ".join(change.reason for change in changes)


def _change(planned: JoinedMember, now: DescribedMember, *, racks: bool) -> MemberChange | None:
    if planned.metadata == now.metadata or not now.metadata:
        return None
    try:
        before = ConsumerProtocolSubscription.decode(planned.metadata)
        after = ConsumerProtocolSubscription.decode(now.metadata)
    except RemoteProtocolError:
        return None
    had, has = frozenset(before.topics), frozenset(after.topics)
    was_in, is_in = (before.rack_id or "", after.rack_id or "") if racks else ("", "")
    if had == has and was_in == is_in:
        return None
    what = []
    if has - had:
        what.append(f"subscribes to {listed(sorted(has - had), NAMES_SHOWN)}, too")
    if had - has:
        what.append(f"subscribes to {listed(sorted(had - has), NAMES_SHOWN)} no more")
    if was_in != is_in:
        what.append(f"is in rack '{is_in}' instead of '{was_in}'")
    instance = now.instance_id or ""
    return MemberChange(instance, has, is_in, f"static member {instance} has returned and {', '.join(what)}")
