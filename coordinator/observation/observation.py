"""The observed state of a group: one frozen value from which pages, metrics and tables are made.

This module makes no requests. `observer` sends them and passes their answers on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from bellwether_kafka.assignors.shared import NOBODY, Cost, Decision, GroupPlan, IntArray, Moves, moves
from bellwether_kafka.coordinator.kafka.wire import BROKER_PROTOCOLS, asks_bellwether
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.coordinator.observation.anomalies import (
    HandOver,
    of_applications,
    of_assignment,
    of_hand_overs,
    of_patterns,
    of_processes,
    of_shares,
)
from bellwether_kafka.coordinator.observation.findings import ANOMALIES, Finding, FindingKind, of_kind
from bellwether_kafka.coordinator.observation.lag import GroupLag, LagReport
from bellwether_kafka.coordinator.observation.self_assigned import ONLY_BELLWETHER, SELF_ASSIGNED
from bellwether_kafka.coordinator.observation.unknown import Unknown, unknown_values
from bellwether_kafka.coordinator.planning import NO_RULES, RackRules, RackSource
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition

# In a "classic" group a member assigns, in "consumer" and "streams" groups the broker. "missing" is a group that does
# not exist, "unknown" one that no broker has described yet.
GroupType = Literal["classic", "consumer", "streams", "other", "missing", "unknown"]


@dataclass(frozen=True, slots=True)
class ObservedMember:
    """A member of an observed group. `owned` are its assigned partitions; `active` and `standby` are the tasks of a
    Streams thread, as Java prints them. `lag` is the sum of known lags in records, None if none is known;
    `unknown_lags` counts the other partitions. `trouble` is why its bytes could not be read. `rack_source` is where its
    rack comes from; `leader_only`: it fetches from leaders only, because it sends no client.rack."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None = None
    topics: tuple[str, ...] = ()
    owned: tuple[TopicPartition, ...] = ()
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    lag: int | None = None
    unknown_lags: int = 0
    trouble: str = ""
    rack_source: RackSource = RackSource.NONE
    leader_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """The plan that Bellwether would make for an observed group. `current` is the cost of the present assignment,
    `planned` that of the plan, `moves` the difference. `present` are the owners of all items, as the broker shows
    them; `inputs` are the plan's inputs, if they can be recorded."""

    current: Cost
    planned: Cost
    moves: Moves
    decision: Decision[GroupPlan]
    present: IntArray
    inputs: object = None

    @classmethod
    def of(cls, decision: Decision[GroupPlan], present: IntArray, inputs: object = None) -> "Shadow":
        """`present` are the owners that the broker shows: the owned partitions that members reported when they joined
        may be one rebalance older."""
        plan = decision.plan
        return cls(plan.cost(present), decision.cost, moves(present, plan.owner), decision, present, inputs)

    @property
    def cross_rack(self) -> int | None:
        """The number of items now read from another rack, None if the racks of no owned item are known."""
        return known_cross_rack(self.decision.plan, self.present, self.current)

    @property
    def cross_rack_planned(self) -> int | None:
        """The same number under the plan."""
        return known_cross_rack(self.decision.plan, self.decision.plan.owner, self.planned)

    @property
    def orders(self) -> tuple[str, ...]:
        """The operators' orders on places that the plan follows, as sentences."""
        return tuple(dict.fromkeys(report.orders for report in self.decision.stages if report.orders))

    def costs(self) -> dict[str, dict[str, int | None]]:
        """Returns both costs as values for JSON. `unknown_racks` is the number of owned items for which it is unknown
        whether they are read from another rack."""
        plan = self.decision.plan
        assignments = (
            (self.current, self.present, self.cross_rack),
            (self.planned, plan.owner, self.cross_rack_planned),
        )
        now, then = (
            asdict(cost) | {"cross_rack": crossing, "unknown_racks": unknown_racks(plan, owner)}
            for cost, owner, crossing in assignments
        )
        return {"current": now, "planned": then}


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The state of a group at `seen_at_ms` (epoch). `obstacle` is why no client can lead it, "" if one can.

    `protocol` is a classic group's protocol, or the name of the broker's assignor, such as `uniform`. `members` are the
    application's, `bellwether_members` Bellwether's. `lags` has an entry per partition of subscribed topics, None if
    nothing is committed or known. Lags are current, while members of an application reported their state when they last
    joined. `group_lag` has details, None if lags could not be read; `lag_notes` are sentences on what is unknown.
    `trouble` is why there is no `shadow`; `silent` is true if the reason is that no broker answered, which may be
    temporary. `epoch` is that of the assignment of a group whose broker assigns; brokers do not show the generation of
    a classic group. `assignor` is the broker's, "" in classic groups and where the broker does not show it, as of
    applications before Kafka 4.4. `classic_members` are its members that still use the classic protocol, after a
    conversion of the running group. `hand_overs` are those that the broker waits for, `patterns` the regular
    expressions to which members subscribe at the broker. `unknown` is set if the observation is not current: the other
    fields are then the last known ones, or `kind` is "unknown" if there are none. `anomalies` are sorted, the worst
    first. `broker_version` is that of the broker that was asked first, () if not known.
    """

    group_id: str
    kind: GroupType
    state: str
    protocol: str
    seen_at_ms: int
    members: tuple[ObservedMember, ...] = ()
    lags: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    obstacle: str = ""
    shadow: Shadow | None = None
    trouble: str = ""
    silent: bool = False
    bellwether_members: tuple[ObservedMember, ...] = ()
    group_lag: GroupLag | None = None
    lag_notes: tuple[str, ...] = ()
    unknown: Unknown | None = None
    anomalies: tuple[Finding, ...] = ()
    epoch: int | None = None
    assignor: str = ""
    classic_members: frozenset[str] = frozenset()
    hand_overs: tuple[HandOver, ...] = ()
    patterns: tuple[str, ...] = ()
    broker_version: tuple[int, ...] = ()

    @property
    def lag(self) -> int | None:
        """The sum of all known lags, None if none is known."""
        return _total(lag for lags in self.lags.values() for lag in lags)

    @property
    def unknown_lags(self) -> int:
        """The number of partitions in `lags` whose lag is unknown."""
        return sum(lag is None for lags in self.lags.values() for lag in lags)

    @property
    def can_be_led(self) -> bool:
        return not self.obstacle and self.kind not in ("missing", "unknown")

    @property
    def asks_bellwether(self) -> bool:
        """Whether its broker assigns by plans of Bellwether."""
        return asks_bellwether(self.assignor)

    @property
    def hypothetical(self) -> bool:
        """Whether Bellwether cannot carry out plans for the group: it cannot lead it, and no broker asks for them."""
        return not (self.can_be_led or self.asks_bellwether)

    @property
    def no_plan(self) -> str:
        """Why there is no `shadow`, as a part of a sentence."""
        empty = self.kind in BROKER_PROTOCOLS and not self.members
        return self.trouble or ("" if empty else self.obstacle) or "it has no members"

    @property
    def assigned_with(self) -> str:
        """The protocol of a classic group, or the assignor of its broker; "" if not known."""
        return self.assignor or ("" if self.kind == "streams" else self.protocol)

    @property
    def self_assigned(self) -> bool:
        """Whether offsets are committed although the group has no member."""
        return self.group_lag is not None and self.group_lag.self_assigned

    @property
    def unread(self) -> tuple[str, ...]:
        """The topics with lags that no member has or subscribes to by name."""
        read = {topic for m in self.members for topic in (*m.topics, *(topic for topic, _ in m.owned))}
        return tuple(sorted(self.lags.keys() - read))

    @property
    def unjudged(self) -> tuple[FindingKind, ...]:
        """The kinds of anomalies that this observation cannot show, whether they exist or not."""
        if self.kind in ("missing", "other"):
            return ()
        if self.kind == "classic" and self.members and self.state != GroupState.STABLE:
            return tuple(kind for kind in ANOMALIES if kind is not FindingKind.SELF_ASSIGNED)
        no_counts = (FindingKind.NO_SUCH_PARTITION,) if self.members and not self.lags else ()
        return *no_counts, *((FindingKind.UNEVEN_TOPIC,) if self.members and self.shadow is None else ())

    @property
    def verdict(self) -> str:
        """Describes whether Bellwether leads or assigns the group, or could."""
        if self.kind == "unknown":
            return f"not known: {self.trouble}"
        if self.bellwether_members:
            led = f"led by Bellwether ({self.bellwether_members[0].member_id})"
            return led if self.members else f"{led}; {ONLY_BELLWETHER}"
        if self.self_assigned:
            return SELF_ASSIGNED
        if self.asks_bellwether:
            return "its broker assigns, and asks Bellwether for plans"
        return "can be led" if self.can_be_led else f"cannot be led: {self.obstacle or self.trouble}"

    def with_lag(self, group_lag: GroupLag) -> "Observation":
        """Returns the observation with the lags of its partitions and members."""
        lags = group_lag.by_topic()
        members = []
        for m in self.members:
            known_lags = [lag for t, p in m.owned if p < len(lags.get(t, ())) and (lag := lags[t][p]) is not None]
            total = sum(known_lags) if known_lags else None
            members.append(replace(m, lag=total, unknown_lags=len(m.owned) - len(known_lags)))
        notes = (*self.lag_notes, *group_lag.notes)
        return replace(self, lags=lags, members=tuple(members), group_lag=group_lag, lag_notes=notes)

    def with_anomalies(self, *, at_rest: bool) -> "Observation":
        """Returns the observation with its anomalies, the worst first. Those of the assignment are included only if the
        group is `at_rest`, since only then does the broker show it."""
        return replace(self, anomalies=_anomalies(self, at_rest=at_rest))


def _anomalies(seen: Observation, *, at_rest: bool) -> tuple[Finding, ...]:
    counts = {topic: len(lags) for topic, lags in seen.lags.items()}
    anomalies = [*anomalies_of_members(seen, counts, at_rest=at_rest), *_self_assigned(seen)]
    anomalies += of_hand_overs(seen.hand_overs)
    if seen.state == GroupState.STABLE:
        anomalies += of_patterns(seen.patterns, seen.unread)
    if seen.shadow is not None:
        host = {member.member_id: member.client_host for member in seen.members if member.client_host}
        owners = seen.shadow.decision.plan.owners
        anomalies += of_processes((o.name, [host[m] for m in o.members if m in host]) for o in owners)
        anomalies += of_shares(seen.shadow.decision.plan, seen.shadow.present)
    return tuple(sorted(anomalies, key=lambda anomaly: ANOMALIES.index(FindingKind(anomaly.kind))))


def anomalies_of_members(seen: Observation, counts: Mapping[str, int], *, at_rest: bool) -> tuple[Finding, ...]:
    """Returns those anomalies that need neither offsets nor a plan. `counts` are the partition counts of the known
    topics. Subscriptions are compared only in classic groups: brokers do not show the patterns of others."""
    anomalies = of_assignment(seen.members, counts) if at_rest else ()
    if seen.kind != "classic":
        return anomalies
    return *anomalies, *of_applications(((m.client_id or m.member_id, m.topics) for m in seen.members), seen.protocol)


def anomalies_of_plan(plan: GroupPlan, protocol: str, name: Callable[[str], str]) -> tuple[Finding, ...]:
    """Returns the anomalies of a plan of Bellwether's, in which each partition has one owner. `name` turns the name of
    an owner into the one to display."""
    named = ((name(owner.name), owner.topics) for owner in plan.owners)
    return *of_applications(named, protocol), *of_shares(plan, plan.owner)


def _self_assigned(seen: Observation) -> Iterable[Finding]:
    if seen.self_assigned:
        message = f"{SELF_ASSIGNED[:1].upper()}{SELF_ASSIGNED[1:]}."
        remedy = 'Beside a member, Bellwether included, the broker would refuse these commits: keep mode = "observe".'
        yield of_kind(FindingKind.SELF_ASSIGNED, message, remedy)


def _total(lags: Iterable[int | None]) -> int | None:
    known_lags = [lag for lag in lags if lag is not None]
    return sum(known_lags) if known_lags else None


def observation(
    group_id: str,
    kind: GroupType,
    answer: DescribeAnswer,
    seen_at_ms: int,
    *,
    obstacle: str = "",
    bellwether_members: Collection[str] = (),
    racks: RackRules = NO_RULES,
) -> Observation:
    """Makes an observation of one Describe answer, without lags and a shadow plan. `bellwether_members` are the ids of
    Bellwether's members; `racks` are for members that send none."""
    streams = answer.protocol == STREAMS_PROTOCOL
    members = [_with_rack(_member(m, streams=streams), racks) for m in answer.members]
    return Observation(
        group_id=group_id,
        kind=kind,
        state=answer.state,
        protocol=answer.protocol,
        seen_at_ms=seen_at_ms,
        members=tuple(m for m in members if m.member_id not in bellwether_members),
        obstacle=obstacle,
        bellwether_members=tuple(m for m in members if m.member_id in bellwether_members),
    )


def unknown_racks(plan: GroupPlan, owner: IntArray) -> int:
    """Returns the number of owned items whose owner has no known rack, or none of whose replicas is on an online broker
    with a known rack."""
    return int(((owner != NOBODY) & ~plan.read_remotely(owner)[0]).sum())


def known_cross_rack(plan: GroupPlan, owner: IntArray, cost: Cost) -> int | None:
    """Returns the number of items read from another rack, None (not 0) if no racks are known."""
    placed = int((owner != NOBODY).sum())
    return None if placed and unknown_racks(plan, owner) == placed else cost.cross_rack


def as_document(seen: Observation, most: int | None = None) -> dict[str, Any]:
    """Returns an observation as values for JSON, without bytes and the decision itself. `most` limits the number of
    partitions with detailed lags."""
    return group_values(seen, most) | {
        "lags": {topic: list(lags) for topic, lags in seen.lags.items()},
        "members": [values_of(member) | {"owned": [list(tp) for tp in member.owned]} for member in seen.members],
    }


def group_values(seen: Observation, most: int | None = None) -> dict[str, Any]:
    """Returns the same as `as_document`, without members and the lag of each partition."""
    plain = (
        "state",
        "seen_at_ms",
        "can_be_led",
        "hypothetical",
        "obstacle",
        "verdict",
        "trouble",
        "lag",
        "unknown_lags",
    )
    shadow = seen.shadow
    return {
        "group": seen.group_id,
        "type": seen.kind,
        "protocol": seen.assigned_with,
        **{name: getattr(seen, name) for name in plain},
        "lag_report": seen.group_lag and _lag_values(seen.group_lag.report(most)),
        "lag_notes": list(seen.lag_notes),
        "anomalies": [values_of(anomaly) for anomaly in seen.anomalies],
        "anomalies_unknown": list(seen.unjudged),
        "unknown": unknown_values(seen.unknown),
        "bellwether_members": [member.member_id for member in seen.bellwether_members],
        "shadow": shadow and {**shadow.costs(), "moves": asdict(shadow.moves), "orders": list(shadow.orders)},
    }


def values_of(value: Any) -> dict[str, Any]:
    """Returns the fields of a slotted dataclass by name, without converting nested values: `asdict` copies everything,
    which takes most of the time for a large group."""
    return {name: getattr(value, name) for name in value.__slots__}


def _lag_values(report: LagReport) -> dict[str, Any]:
    values = {
        "summary": values_of(report.summary),
        "partitions": [values_of(partition) for partition in report.partitions],
    }
    return values_of(report) | values


def _with_rack(member: ObservedMember, racks: RackRules) -> ObservedMember:
    if member.rack:
        return replace(member, rack_source=RackSource.MEMBER)
    if not racks or not member.topics:
        return member
    given = racks.rack_of(member.client_id, member.client_host)
    return replace(member, rack=given.rack, rack_source=given.source, leader_only=given.leader_only)


def _member(member: DescribedMember, *, streams: bool) -> ObservedMember:
    seen = ObservedMember(member.member_id, member.instance_id, member.client_id, member.client_host)
    if not member.metadata:
        return seen  # during a rebalance brokers show no subscriptions, and newer ones show old assignments
    try:
        subscription = ConsumerProtocolSubscription.decode(member.metadata)
        assignment = ConsumerProtocolAssignment.decode(member.assignment) if member.assignment else None
        info = AssignmentInfo.decode(assignment.user_data) if streams and assignment and assignment.user_data else None
    except RemoteProtocolError as error:
        return replace(seen, trouble=str(error))
    return replace(
        seen,
        rack=subscription.rack_id,
        topics=subscription.topics,
        owned=assignment.partitions if assignment else (),
        active=tuple(dict.fromkeys(map(str, info.active_tasks))) if info else (),
        standby=tuple(str(task) for task, _ in info.standby_tasks) if info else (),
    )
