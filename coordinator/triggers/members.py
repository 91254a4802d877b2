"""Members that have changed without a rebalance: other topics or racks, an instance id that two processes share, topics
without an owner. Pure.

A static member may return with more topics and cause no rebalance (KAFKA-12759), so a subscribed topic without an owner
is a reason to plan. If it is still without one after that plan, this is a fact: Bellwether's plans do not serve it, and
a member's lead might.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import (
    DescribedMember,
    Duels,
    MemberChange,
    RebalanceWanted,
    State,
    StepAsideWanted,
    WorkSuspected,
    changed_members,
    may_change,
)
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.triggers.picture import Findings, Picture, RacksVersion, Reading
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

DESCRIBED_S = 5.0
HOSTS_S = 1.0
RACKS_S = 1.0
RACKS_AGAIN_S = 10.0  # after a description that brought nothing new, or a comparison that failed
SETTLED_S = 15.0  # least age of a plan, so that members have had time to adopt it
PLANS = 2  # plans without an owner for a topic that make this a fact
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SeenMembers:
    """`static`: whether members of this generation may change without a rebalance. `reported`: the changes that were
    shown last."""

    generation: int
    static: bool
    reported: tuple[MemberChange, ...] = ()


def members(picture: Picture, seen: SeenMembers | None) -> tuple[SeenMembers, Findings]:
    """Asks for a rebalance if static members have changed since the plan. A plan for exactly the changes that were
    shown before has not helped, and another one would not."""
    member = picture.member
    reported = seen.reported if seen is not None else ()
    if seen is None or seen.generation != member.generation:
        seen = SeenMembers(member.generation, may_change(member.members, member.member_id), reported)
    if picture.shown is None:
        return seen, ()
    changes = changed_members(member.members, picture.shown, member.member_id, racks=picture.uses_racks)
    wanted = tuple(change.wanted for change in changes) if changes != reported else ()
    return replace(seen, reported=changes), wanted


def members_wants(picture: Picture, seen: SeenMembers | None) -> Mapping[Reading, float]:
    return {Reading.DESCRIPTION: DESCRIBED_S} if seen is not None and seen.static and picture.rests else {}


def duels(picture: Picture, seen: Duels | None) -> tuple[Duels, Findings]:
    """Alerts to an instance id that two processes share, once for each."""
    seen = seen or Duels()
    if picture.shown is None:
        return seen, ()
    return seen, tuple(map(WorkSuspected, seen.shown(picture.shown, picture.member.member_id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """What is known of topics without an owner. `plan` was delivered at `planned_at`, as number `plans`. `lacking`: the
    plans in which a topic had no owner. `reported`: what was reported since the last plan."""

    plan: object = None
    planned_at: float = 0.0
    plans: int = 0
    lacking: Mapping[str, frozenset[int]]
    reported: tuple[str, ...] = ()

    def planned(self, plan: object, now: float) -> "Owners":
        return replace(self, plan=plan, planned_at=now, plans=self.plans + 1, reported=())

    def after(self, topics: Sequence[str]) -> "Owners":
        """Takes the topics without an owner in a description."""
        lacking = {topic: self.lacking.get(topic, frozenset()) | {self.plans} for topic in topics}
        return replace(self, lacking=lacking)


def owners(picture: Picture, seen: Owners | None) -> tuple[Owners | None, Findings]:
    """Asks for a plan if a subscribed topic of plain consumers has no owner, and hands the group back if that does not
    help. While partitions are handed over, they have no owner for a moment."""
    decision, member = picture.decision, picture.member
    if decision is None or picture.config is not None:
        return None, ()
    seen = seen or Owners(lacking={})
    if picture.planned is not seen.plan:
        seen = seen.planned(picture.planned, picture.now)
    if picture.shown is None or member.hands_over or picture.now - seen.planned_at < SETTLED_S:
        return seen, ()
    others = [each for each in picture.shown.members if each.member_id != member.member_id]
    topics = _without_owner(others, decision.cluster)
    if topics is None:
        return seen, ()
    seen = seen.after(topics)
    lasting = tuple(topic for topic in topics if len(seen.lacking[topic]) >= PLANS)
    unserved = lasting or topics
    if not unserved or unserved == seen.reported:
        return seen, ()
    reason = f"no member has a partition of {listed(unserved, NAMES_SHOWN)}, which members subscribe to"
    finding = StepAsideWanted(reason) if lasting else RebalanceWanted(reason, "owners")
    return replace(seen, reported=unserved), (finding,)


def _without_owner(members: Sequence[DescribedMember], cluster: ClusterView) -> tuple[str, ...] | None:
    """Returns the readable topics that members subscribe to and none owns; None if a member's bytes cannot be
    decoded."""
    subscribed, owned = set[str](), set[str]()
    try:
        for member in members:
            subscribed.update(ConsumerProtocolSubscription.decode(member.metadata).topics)
            if member.assignment:
                owned.update(tp.topic for tp in ConsumerProtocolAssignment.decode(member.assignment).partitions)
    except RemoteProtocolError:
        return None
    counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
    return tuple(sorted(t for t in subscribed - owned if counts.get(t) and t not in cluster.unreadable))


@dataclass(frozen=True, slots=True)
class ComparedRacks:
    """The generation and the version of its racks that need not be compared again, None for none yet. `again`: the last
    comparison does not count."""

    compared: tuple[int, RacksVersion] | None = None
    again: bool = False


def racks(picture: Picture, seen: ComparedRacks | None) -> tuple[ComparedRacks, Findings]:
    """Asks for a rebalance if racks that have become known would save reads from other racks."""
    gain, seen = picture.gain, seen or ComparedRacks()
    if picture.unanswered is Reading.RACKS:
        return replace(seen, again=True), ()
    if gain is None or not picture.rests:
        return seen, ()
    findings = (RebalanceWanted(gain.reason, "racks"),) if gain.reason else ()
    compared = None if gain.again else (picture.member.generation, gain.version)
    return ComparedRacks(compared, gain.again), findings


def racks_wants(picture: Picture, seen: ComparedRacks | None) -> Mapping[Reading, float]:
    """Members are described while they join, so that their hosts are mostly known in time: no plan waits for them."""
    if picture.racks is None:
        return {}
    if picture.member.state is State.JOINING:
        return {Reading.HOSTS: HOSTS_S} if picture.needs_hosts else {}
    rests = picture.rests and bool(picture.member.members)
    if not rests or (seen is not None and seen.compared == (picture.member.generation, picture.racks)):
        return {}
    return {Reading.RACKS: RACKS_AGAIN_S if seen is not None and seen.again else RACKS_S}
