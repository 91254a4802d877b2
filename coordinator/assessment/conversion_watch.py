"""The course of a conversion, and of the way back: what each refresh of the group shows beside what was predicted, and
when the group has settled in the other protocol. Pure: time is that of the observations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bellwether_kafka.coordinator.assessment.conversion_facts import ConversionFacts
from bellwether_kafka.coordinator.assessment.model import PolicyRow, Prices
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.kafka.wire import BROKER_PROTOCOLS, OWN_ASSIGNORS, asks_bellwether, policy_in
from bellwether_kafka.coordinator.membership import GroupState
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import OF_PATTERNS, Observation, ObservedMember
from bellwether_kafka.protocol.primitives import TopicPartition

CLASSIC = "classic"
DEFAULTS = {"consumer": "uniform", "streams": "sticky"}  # the assignors of a broker whose list was not changed
THREAD = "-StreamThread-"  # in the client id of a Streams thread, after that of its process
SETTLED_REFRESHES = 3  # in a row: between two rebalances a group is stable for a moment

Item = TopicPartition | str  # a partition, or a task as Java prints it


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCounts:
    """Counts of partitions, of an application of tasks: without an owner, read from another rack, and moved since the
    watch began. `spread` is the fullest member less the emptiest. None if it is not known; `moved` also where members
    cannot be recognised, because several have the same client id and no instance id."""

    unowned: int | None = None
    cross_rack: int | None = None
    spread: int | None = None
    moved: int | None = None


UNKNOWN_COUNTS = PlacementCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionProgress:
    """What one refresh shows of a conversion to the protocol `to`.

    `protocol` is the type of the group, `assignor` a classic group's protocol or the broker's assignor. `members` are
    counts by protocol. `epoch` is that of the assignment, None in a classic group: brokers do not show its generation.
    `pending` is what is missing, "" if nothing is. `settled` follows after further refreshes that show the same.
    `predicted` is what the assignor `predicted_by` makes of the group as it was when the watch began, None if that is
    not known.
    """

    group: str
    at_ms: int
    to: str
    protocol: str
    assignor: str
    state: str
    members: Mapping[str, int]
    epoch: int | None
    placement: PlacementCounts
    predicted_by: str
    predicted: PlacementCounts | None
    pending: str
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionStart:
    """The group when the watch began. `back`: it is to become classic again. `members_min` are as many members as have
    to be there at the end. `owners` are the names of the members by partition, or of
    processes by task, empty if members are not unique. `topics` are those that members had, without any those with
    committed offsets."""

    to: str
    back: bool
    members_min: int
    owners: Mapping[Item, str]
    topics: frozenset[str] = frozenset()
    predicted_by: str = ""
    predicted: PlacementCounts | None = None

    @classmethod
    def of(cls, facts: ConversionFacts, *, back: bool = False, members_min: int | None = None) -> "ConversionStart":
        by, predicted = _back_prediction(facts) if back else _prediction(facts)
        return cls(
            to=CLASSIC if back else facts.protocol,
            back=back,
            members_min=max(1, len(facts.seen.members)) if members_min is None else members_min,
            owners=_owners(facts.seen),
            topics=_read(facts.seen) or frozenset(facts.seen.lags),
            predicted_by=by,
            predicted=predicted,
        )

    def progress(self, seen: Observation) -> ConversionProgress:
        """Returns what this refresh shows."""
        cost = None if seen.shadow is None else seen.shadow.current
        return ConversionProgress(
            group=seen.group_id,
            at_ms=seen.seen_at_ms,
            to=self.to if self.back or seen.kind not in BROKER_PROTOCOLS else seen.kind,
            protocol=seen.kind,
            assignor=seen.assigned_with,
            state=seen.state,
            members=_by_protocol(seen),
            epoch=seen.epoch,
            placement=PlacementCounts(
                unowned=None if cost is None else cost.unowned,
                cross_rack=None if seen.shadow is None else seen.shadow.cross_rack,
                spread=None if cost is None else cost.spread,
                moved=_moved(self.owners, _owners(seen)),
            ),
            predicted_by=self.predicted_by,
            predicted=self.predicted,
            pending=self._pending(seen),
        )

    def _pending(self, seen: Observation) -> str:
        if seen.unknown is not None:
            return f"the group is not known now: {seen.unknown.reason}"
        if (seen.kind != CLASSIC) if self.back else (seen.kind not in BROKER_PROTOCOLS):
            return f"the group is {seen.kind}"
        if seen.classic_members:
            return f"members with the classic protocol: {len(seen.classic_members)}"
        if len(seen.members) < self.members_min:
            return f"members: {len(seen.members)} of {self.members_min}"
        if seen.state != GroupState.STABLE:
            return f"the group is {seen.state}"
        if seen.shadow is None:
            return f"owners are not known: {seen.trouble or 'no plan could be made'}"
        waits = [f"without an owner: {unowned}"] if (unowned := seen.shadow.current.unowned) else []
        waits += [f"{each.sentence}" for each in seen.hand_overs]
        if lost := sorted(self.topics - _read(seen)):
            waits.append(f"nobody has topics that members had: {listed(lost)}; {OF_PATTERNS}")
        return "; ".join(waits)


class ConversionFollower:
    """Turns refreshes into the changes between them. `settled` is true once nothing was pending in several in a row."""

    def __init__(self, start: ConversionStart) -> None:
        self._start = start
        self._last: ConversionProgress | None = None
        self._complete = 0

    @property
    def settled(self) -> bool:
        return self._complete >= SETTLED_REFRESHES

    @property
    def pending(self) -> str:
        """What was missing at the last refresh, "" if nothing was."""
        return "the group was not refreshed" if self._last is None else self._last.pending

    def on_refresh(self, seen: Observation) -> ConversionProgress | None:
        """Returns what this refresh shows, None if it is the same as at the last one."""
        progress = self._start.progress(seen)
        self._complete = 0 if progress.pending else self._complete + 1
        progress = replace(progress, settled=self.settled)
        before, self._last = self._last, progress
        return None if before is not None and replace(before, at_ms=progress.at_ms) == progress else progress


def _prediction(facts: ConversionFacts) -> tuple[str, PlacementCounts | None]:
    """Returns what the broker's assignor makes of the present assignment; nothing for a converted group, or if the
    brokers use one that is not known here."""
    if facts.converted:
        return "", None
    policy = _predicted_policy(facts)
    rows = rows_of(facts.seen, Prices(), restarts=True)
    row = next((row for row in rows if row.policy == policy), None)
    return (policy, _of_row(row)) if row is not None else ("", None)


def _predicted_policy(facts: ConversionFacts) -> str:
    """Returns the policy of the assignor that brokers use unless members name another: Kafka's own if it is not known
    or differs between brokers. What Bellwether plans for an application whose instances were all stopped is not
    predicted."""
    name = next(iter(facts.defaults)) if len(facts.defaults) == 1 else DEFAULTS[facts.protocol]
    if not asks_bellwether(name):
        return f"broker-{name}"
    configured = facts.seen.shadow.decision.policy if facts.seen.shadow is not None else ""
    return "" if facts.protocol == "streams" else configured if name == OWN_ASSIGNORS else policy_in(name)


def _of_row(row: PolicyRow) -> PlacementCounts:
    of = row.measures
    if of is None:
        return UNKNOWN_COUNTS
    return PlacementCounts(unowned=of.unowned, cross_rack=of.cross_rack, spread=of.spread, moved=row.moves)


def _back_prediction(facts: ConversionFacts) -> tuple[str, PlacementCounts | None]:
    """Returns Bellwether's plan if it will lead the group at once. Otherwise a member will assign, by an assignor that
    a group whose broker assigns does not show."""
    shadow = facts.seen.shadow
    if shadow is None or not facts.led or facts.waits:
        return "", None
    planned = PlacementCounts(
        unowned=shadow.planned.unowned,
        cross_rack=shadow.cross_rack_planned,
        spread=shadow.planned.spread,
        moved=shadow.moves.moved,
    )
    return shadow.decision.policy, planned


def _by_protocol(seen: Observation) -> dict[str, int]:
    classic = len(seen.classic_members)
    if seen.kind not in BROKER_PROTOCOLS:
        return {CLASSIC: len(seen.members)}
    return {seen.kind: len(seen.members) - classic} | ({CLASSIC: classic} if classic else {})


def _owners(seen: Observation) -> dict[Item, str]:
    """Returns the names of owners: of an application its processes, between whose threads a task moves at no cost.
    Member ids change when a member is restarted; instance and client ids do not."""
    names = [member.instance_id or member.client_id for member in seen.members]
    if len(set(names)) < len(names):
        return {}
    items: list[tuple[tuple[Item, ...], str]] = [(m.active or m.owned, _owner(m)) for m in seen.members]
    return {item: owner for of_member, owner in items for item in of_member}


def _read(seen: Observation) -> frozenset[str]:
    """Returns the topics of which members have partitions."""
    return frozenset(topic for member in seen.members for topic, _ in member.owned)


def _owner(member: ObservedMember) -> str:
    process, thread, _ = member.client_id.partition(THREAD)
    return process if thread else member.instance_id or member.client_id


def _moved(before: Mapping[Item, str], now: Mapping[Item, str]) -> int | None:
    """Returns how many partitions or tasks have another owner, None if no owner of before is recognised."""
    if not set(before.values()) & set(now.values()):
        return None
    return sum(owner != before[item] for item, owner in now.items() if item in before)
