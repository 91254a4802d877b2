"""Reads one group on request and never joins it: the IO around `observation`."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import RefusalError, Weights
from bellwether_kafka.assignors.streams import STOCK, TaskPlan
from bellwether_kafka.assignors.streams.application import TopologyError
from bellwether_kafka.coordinator import kafka, membership, planning
from bellwether_kafka.coordinator.kafka import BrokerGroup, ClusterUnreachableError, TransportError
from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    Code,
    DescribeAnswer,
    Failure,
    GroupState,
    MembershipConfig,
)
from bellwether_kafka.coordinator.observation.anomalies import Anomaly
from bellwether_kafka.coordinator.observation.broker_assigned import REASONS, assignor_of, classic_view, topology_of
from bellwether_kafka.coordinator.observation.kept import Kept, PlannedFrom
from bellwether_kafka.coordinator.observation.lag_refreshes import LagRefreshes, computed
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import (
    GroupType,
    Observation,
    Shadow,
    anomalies_of,
    observation,
    shadow_of,
)
from bellwether_kafka.coordinator.observation.rebalances import Rebalances, SeenRebalance
from bellwether_kafka.coordinator.observation.rhythms import Rhythms
from bellwether_kafka.coordinator.observation.shared import SharedGroups
from bellwether_kafka.coordinator.observation.unknown import Unknown, unknown_of
from bellwether_kafka.coordinator.planning import Application, Planner, Solver, StreamsConfig, StreamsKind
from bellwether_kafka.coordinator.topology import GivenTopology, TopologyKeeper
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL
from bellwether_kafka.protocol.primitives import TopicPartition

LIMIT_S = 5.0
# What members were given is newer than whatever they said when they joined.
NEWEST = 2**31 - 1
METADATA_AGE_MS_MAX = 10_000
READ_AT_ONCE_BYTES = 100_000  # of an answer, which takes less time to read than heartbeats may be late
NOT_CLASSIC = "not a classic group"
NO_SUCH_GROUP = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})
BROKER_PROTOCOLS: tuple[kafka.BrokerProtocol, ...] = ("consumer", "streams")

OnObservation = Callable[[Observation], None]
OnSeen = Callable[[str, DescribeAnswer], None]  # what DescribeGroups said, as it came
OnRebalance = Callable[[Observation, SeenRebalance], None]  # the look that found one ended

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sources:
    """What an observer reads from. `shared` stands in the place of the transport where many groups are looked at."""

    transport: kafka.Transport
    reader: kafka.ClusterReader
    offsets: kafka.OffsetReader
    shared: SharedGroups | None = None

    @property
    def groups(self) -> kafka.Transport | SharedGroups:
        return self.shared or self.transport


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """What a Describe answer says. `seen` has no time and no lags, `answer` no instances; `topics` are those of members
    and `owners` have partitions, None where the broker does not show who has what; `highest` is of each topic the
    highest partition that a member has."""

    seen: Observation
    answer: DescribeAnswer
    topics: frozenset[str]
    owners: Mapping[TopicPartition, str] | None
    highest: Mapping[str, int]


class ReadOnlyTopology(TopologyKeeper):
    """A topology that is only looked at: nothing is created for a group that is not Bellwether's."""

    async def complete(self, *_: object) -> None:
        """No topics."""


class GroupObserver:
    """One group's.

    `application` is what is configured of one; without, a group that turns out to be one has its topology learned.
    `lags` are those that others read, too; of a group with more partitions than `lag_partitions_max` none are read.
    """

    def __init__(
        self,
        config: MembershipConfig,
        sources: Sources,
        policy: Policy,
        application: Application | None = None,
        on_observation: Sequence[OnObservation] = (),
        *,
        on_seen: Sequence[OnSeen] = (),
        on_rebalance: Sequence[OnRebalance] = (),
        on_unknown: Sequence[OnObservation] = (),
        weights: Callable[[], Weights] | None = None,
        rhythms: Rhythms | None = None,
        lags: LagRefreshes | None = None,
        lag_partitions_max: int | None = None,
        solver: Solver | None = None,
    ) -> None:
        self.group_id = config.group_id
        self.last: Observation | None = None
        self.rebalances = Rebalances()
        self._config = config
        self._sources = sources
        self._policy = policy
        application = application or Application(StreamsConfig(config.group_id, standbys_unknown=True), STOCK)
        self._streams = replace(application.config, topology_attested=True)  # nobody acts on this plan
        self._assignors = application.assignors
        self._given = given = application.topology
        self._keeper = ReadOnlyTopology(self._streams.application_id, given, sources.reader.admin, sources.offsets)
        self._on_observation = on_observation
        self._on_seen = on_seen
        self._on_rebalance = on_rebalance
        self._on_unknown = on_unknown
        self._weights = weights
        self._lags = lags or LagRefreshes(config.group_id, rhythms=rhythms)
        self._lag_partitions_max = lag_partitions_max
        self._solver = solver
        self._known: Observation | None = None  # the newest one that was of its moment
        self._described: Kept[DescribedGroup] = Kept()
        self._shadow: Kept[Shadow] = Kept()
        self._anomalies: Kept[tuple[Anomaly, ...]] = Kept()

    @property
    def policy(self) -> Policy:
        """By which the shadow plan is made."""
        return self._policy

    async def refresh(self) -> None:
        """A refresh that listeners are given. What is not known, because of an error or the silence of brokers, is a
        log line for as long as it lasts, and goes to `on_unknown` only: it is no state of the group."""
        try:
            seen = await self.observe_or_unknown()
            if seen.unknown is None:
                self._notify(seen)
            else:
                self._report_unknown(seen, seen.unknown)
        except Exception:
            log.exception("group_not_observed", group=self.group_id)

    def rest(self) -> None:
        """The group is not looked at for a while: what was seen will not be of now."""
        self.last = self._known = None

    async def observe_or_unknown(self) -> Observation:
        """The same as `observe`; where no broker answers, what was known last, with why."""
        try:
            return await self.observe()
        except TransportError as error:
            return self._unknown(error)

    def _unknown(self, cause: int | TransportError) -> Observation:
        """What was known last, with why it is not of now."""
        unknown = unknown_of(cause, self.group_id, int(time.time() * 1000))
        before = self.last.unknown if self.last is not None else None
        if before is not None:
            unknown = replace(unknown, since_ms=before.since_ms)
        if self._known is not None:
            return replace(self._known, unknown=unknown)
        empty = Observation(self.group_id, "unknown", "", "", unknown.since_ms, trouble=unknown.reason, silent=True)
        return replace(empty, unknown=unknown)

    def _report_unknown(self, seen: Observation, unknown: Unknown) -> None:
        before = self.last.unknown if self.last is not None else None
        if before is None or before.reason != unknown.reason:
            log.warning("group_not_observed", group=self.group_id, reason=unknown.reason)
        self.last = seen
        for observer in self._on_unknown:
            notify(observer, seen)

    def _notify(self, seen: Observation) -> None:
        if _summary(seen) != (_summary(self.last) if self.last is not None else None):
            log.info("group_observed", group=self.group_id, lag=seen.lag, **_summary(seen))
        self.last = self._known = seen
        ended = self.rebalances.saw(seen)
        for hearer in self._on_rebalance if ended is not None else ():
            notify(hearer, seen, ended)
        for observer in self._on_observation:
            notify(observer, seen)

    async def observe(self) -> Observation:
        """Reads everything. An error that a broker answers with makes it `unknown`. Raises TransportError where none
        answers."""
        answer = await self._sources.groups.describe_group(self.group_id)
        if answer.error and not membership.is_missing(answer):
            return self._unknown(answer.error)
        for observer in self._on_seen:
            notify(observer, self.group_id, answer)
        by_broker = await self._described_by_broker() if _may_be_broker_led(answer) else None
        if isinstance(by_broker, int):
            return self._unknown(by_broker)
        if by_broker is not None:
            answer = classic_view(by_broker)
        kind = _kind(answer, by_broker)
        described = await self._read_once(answer, kind)
        seen, answer = replace(described.seen, seen_at_ms=int(time.time() * 1000)), described.answer
        if by_broker is not None:
            seen = replace(seen, protocol=assignor_of(by_broker))
        if kind == "missing":
            return replace(seen, trouble="there is no such group yet")
        if kind == "other":
            return seen
        seen = await self._with_lags(seen, described)
        if answer.members and (by_broker is not None or answer.state == GroupState.STABLE):
            seen = await self._with_shadow(seen, described, by_broker)
        elif answer.members:
            seen = replace(seen, trouble=f"what members have is shown when the group is Stable; it is {answer.state}")
        return await self._with_anomalies(seen, described)

    async def _with_anomalies(self, seen: Observation, described: DescribedGroup) -> Observation:
        counts = {topic: len(lags) for topic, lags in seen.lags.items()}
        of = (described.seen.members, counts, seen.shadow, seen.self_assigned)
        found = self._anomalies.get(of)
        if found is None:
            at_rest = described.owners is not None
            found = self._anomalies.put(of, await computed(sum(counts.values()), anomalies_of, seen, at_rest=at_rest))
        return replace(seen, anomalies=found)

    async def _read_once(self, answer: DescribeAnswer, kind: GroupType) -> DescribedGroup:
        """Heartbeats of groups that Bellwether leads must not wait for a large answer."""
        known = self._described.get((answer, kind))
        if known is not None:
            return known
        if sum(len(m.metadata) + len(m.assignment) for m in answer.members) <= READ_AT_ONCE_BYTES:
            read = self._read(answer, kind)
        else:
            read = await asyncio.to_thread(self._read, answer, kind)
        return self._described.put((answer, kind), read)

    def _read(self, answer: DescribeAnswer, kind: GroupType) -> DescribedGroup:
        """What follows from the answer alone: nearly everything, and for most groups the same as at the last look."""
        config, classic = self._config, kind not in BROKER_PROTOCOLS
        own = {m.member_id for m in answer.members if classic and membership.is_bellwether(m, config)}
        obstacle = self._obstacle(kind, answer)
        seen = observation(self.group_id, kind, answer, 0, obstacle=obstacle, bellwether_members=own)
        at_rest = kind != "classic" or seen.state == GroupState.STABLE or not seen.members
        owners = {partition: m.member_id for m in seen.members for partition in m.owned}
        return DescribedGroup(
            seen=seen,
            answer=replace(answer, members=tuple(m for m in answer.members if m.member_id not in own)),
            topics=frozenset(topic for m in seen.members for topic in (*m.topics, *(t for t, _ in m.owned))),
            owners=owners if at_rest else None,
            highest=dict(sorted(owners)),  # of each topic the last one stays
        )

    async def _described_by_broker(self) -> BrokerGroup | int | None:
        """The group where a broker assigns in it, the error code that hides whether one does, None for no such group.
        Raises TransportError where a broker does not say."""
        hidden: int | TransportError | None = None
        for protocol in BROKER_PROTOCOLS:
            try:
                group = await self._sources.groups.describe_by_broker(self.group_id, protocol)
            except TransportError as error:
                if error.failure is not Failure.UNSUPPORTED:  # a broker without the call has no such groups
                    hidden = hidden or error
                continue
            if group.error == 0:
                return group
            if group.error not in NO_SUCH_GROUP:
                hidden = hidden or group.error
        if isinstance(hidden, TransportError):
            raise hidden
        return hidden

    def _obstacle(self, kind: GroupType, answer: DescribeAnswer) -> str:
        if kind in REASONS:
            return REASONS[kind]
        if kind == "missing":
            return ""
        config = self._config
        if answer.protocol == STREAMS_PROTOCOL:
            config = replace(config, protocols=(STREAMS_PROTOCOL,))
        elif config.streams and answer.protocol:
            config = replace(config, protocols=MembershipConfig("").protocols)
        obstacle = membership.unfit(answer, config)
        return obstacle.sentence if obstacle is not None else ""

    async def _with_lags(self, seen: Observation, described: DescribedGroup) -> Observation:
        """Lags are worth having and nothing depends on them."""
        offsets, reader = self._sources.offsets, self._sources.reader
        try:
            topics = await self._topics(seen, described)
            known = (await reader.read(topics, METADATA_AGE_MS_MAX)).count_of
            grown = [topic for topic, p in described.highest.items() if p >= known.get(topic, p + 1)]
            if grown:  # what is older than the assignment knows no new partitions
                reader.expire(grown)
                known = (await reader.read(topics, METADATA_AGE_MS_MAX)).count_of
            counts = {topic: known[topic] for topic in topics if topic in known}
            if self._lag_partitions_max is not None and sum(counts.values()) > self._lag_partitions_max:
                return replace(seen, lag_notes=(f"no lags: more than {self._lag_partitions_max:,} partitions",))
            memberless = not (seen.members or seen.bellwether_members)
            found = await self._lags.refresh(
                offsets, reader.admin, counts, described.owners, LIMIT_S, memberless=memberless
            )
        except (kafka.OffsetsError, ClusterUnreachableError, TransportError) as error:
            log.info("lags_unknown", group=self.group_id, reason=str(error))
            return replace(seen, lag_notes=(f"no lags: {error}",))
        missing = [topic for topic in topics if topic not in counts]
        notes = tuple(f"{topic} does not exist or may not be described: its lag is not known" for topic in missing)
        seen = replace(seen, lag_notes=notes)
        return await computed(sum(counts.values()), seen.with_lag, found)

    async def _topics(self, seen: Observation, described: DescribedGroup) -> list[str]:
        """What members subscribe to. Where none is there, or none shows it because the group rebalances, what the
        group has read: at the last look, else anywhere. Raises TransportError."""
        shown = described.topics
        if not shown and seen.members:
            shown = frozenset(self._lags.counts)
        return sorted(shown or (await self._sources.transport.any_committed(self.group_id)).topics)

    async def _with_shadow(
        self, seen: Observation, described: DescribedGroup, group: BrokerGroup | None
    ) -> Observation:
        answer, planned_from = described.answer, await self._planned_from(described)
        known = self._shadow.get(planned_from) if planned_from is not None else None
        if known is not None:
            return replace(seen, shadow=known)
        members = tuple(membership.JoinedMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        # With all the time that a plan may take from now on.
        command = membership.Decide(NEWEST, answer.protocol, members, "", time.monotonic() + LIMIT_S, dry=True)
        try:
            compared = await self._planner(answer, group).shadow(command, membership.shown(answer))
            shadow = self._shadow.put(planned_from, shadow_of(compared.decision, compared.held, compared.inputs))
            return replace(seen, shadow=shadow)
        except (RefusalError, TopologyError, ClusterUnreachableError, membership.NotShownError) as error:
            silent = isinstance(error, ClusterUnreachableError)
            return replace(seen, trouble=f"no shadow plan: {error}", silent=silent)

    async def _planned_from(self, described: DescribedGroup) -> PlannedFrom | None:
        """None where every look needs a plan of its own: weights and what Streams tasks lag change all the time."""
        answer = described.answer
        varies = self._weights is not None or answer.protocol in (STREAMS_PROTOCOL, STATEFUL_PROTOCOL)
        if varies or self._sources.shared is None:
            return None
        try:
            return PlannedFrom(answer, await self._sources.reader.read(described.topics, METADATA_AGE_MS_MAX))
        except ClusterUnreachableError:
            return None

    def _planner(self, answer: DescribeAnswer, group: BrokerGroup | None) -> Planner[PartitionPlan] | Planner[TaskPlan]:
        """A fresh one for each look: what a planner remembers is what the group shows now."""
        sources, group_id = self._sources, self.group_id
        if answer.protocol == STATEFUL_PROTOCOL:
            kind, dialect = planning.stateful(group_id, self._streams, sources.reader, self._given, self._assignors)
            return Planner(group_id, kind, dialect=dialect, solver=self._solver)
        if answer.protocol != STREAMS_PROTOCOL:
            consumers = planning.ConsumerKind(sources.reader, self._policy, weights=self._weights)
            return Planner(group_id, consumers, solver=self._solver)
        topology = GivenTopology(topology_of(group)) if group is not None else self._keeper
        streams = StreamsKind(group_id, self._streams, sources.reader, sources.offsets, topology, self._assignors)
        return Planner(group_id, streams, solver=self._solver)


def _summary(seen: Observation) -> dict[str, object]:
    """What is worth a log line when it changes; lags change all the time."""
    shadow = seen.shadow
    return {
        "kind": seen.kind,
        "state": seen.state,
        "protocol": seen.protocol,
        "members": len(seen.members),
        "obstacle": seen.obstacle,
        "trouble": seen.trouble,
        "shadow_moves": shadow.moves.moved if shadow is not None else None,
    }


def _may_be_broker_led(answer: DescribeAnswer) -> bool:
    """Older brokers say Dead of a group that they keep in another protocol."""
    return answer.error == Code.GROUP_ID_NOT_FOUND or NOT_CLASSIC in answer.message or answer.state == GroupState.DEAD


def _kind(answer: DescribeAnswer, group: BrokerGroup | None) -> GroupType:
    if group is not None:
        return group.protocol
    if answer.error or answer.state == GroupState.DEAD:
        return "missing"
    return "classic" if answer.protocol_type in ("", "consumer") else "other"
