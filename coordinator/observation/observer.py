"""Reads the state of one group from the brokers without joining it: the IO around `observation`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from bellwether_kafka.assignors.consumer import LOAD_AWARE, PartitionPlan, Policy
from bellwether_kafka.assignors.shared import RefusalError, Rule, Weights
from bellwether_kafka.assignors.streams import STOCK, TaskPlan
from bellwether_kafka.assignors.streams.application import TopologyError
from bellwether_kafka.coordinator import clocks, membership, planning
from bellwether_kafka.coordinator.kafka import client
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, TransportError
from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    DescribeAnswer,
    GroupState,
    MembershipConfig,
)
from bellwether_kafka.coordinator.observation.findings import Finding
from bellwether_kafka.coordinator.observation.group_reader import DescribedGroup, GroupReader, OnSeen, Sources
from bellwether_kafka.coordinator.observation.kept import Kept, PlannedFrom
from bellwether_kafka.coordinator.observation.lag_refreshes import LagRefreshes, computed
from bellwether_kafka.coordinator.observation.log_bounds import read_logs
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import (
    Observation,
    Shadow,
)
from bellwether_kafka.coordinator.observation.rebalances import Rebalances, SeenRebalance
from bellwether_kafka.coordinator.observation.rhythms import Rhythms
from bellwether_kafka.coordinator.observation.unknown import Unknown
from bellwether_kafka.coordinator.planning import (
    NO_RULES,
    Application,
    Planner,
    RackRules,
    Solver,
    StreamsConfig,
    StreamsKind,
    topology_of,
)
from bellwether_kafka.coordinator.topology import GivenTopology, TopologyKeeper
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL

LIMIT_S = 5.0
# A generation above all others: the described assignment is newer than what members sent when they joined.
NEWEST = 2**31 - 1
METADATA_AGE_MS_MAX = 10_000
REFUSED = (
    "its broker asks Bellwether and is refused a plan ({}), so members keep what they have, and the broker only places"
    " what has no owner"
)

OnObservation = Callable[[Observation], None]
OnRebalance = Callable[[Observation, SeenRebalance], None]  # the refresh that found a rebalance ended

log = structlog.get_logger(__name__)


class ReadOnlyTopology(TopologyKeeper):
    """A topology keeper that creates no topics, since Bellwether does not lead the group, and does not say whether the
    group has the topology: beside a membership that has handed the lead back, only that one's keeper knows."""

    async def complete(self, *_: object) -> None:
        """Creates no topics."""

    def log_comparison(self, left_over: Sequence[str]) -> None:
        """Logs nothing: what contradicts the topology is the reason why a group could not be led."""


class GroupObserver:
    """Observes one group.

    `application` has the settings of a Streams application; without it, Bellwether learns the topology of a group that
    proves to be one. `weights` are those of a topic, and `read_weights` reads that topic before each plan that depends
    on it. `lags` may be shared with other readers. No lags are read of a group with more partitions than
    `lag_partitions_max`. `rules_of` returns the orders on placement in a group whose broker asks Bellwether, None if
    they are not read yet; those of other groups come with `policy` and `application`.
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
        read_weights: Callable[[], Awaitable[Weights]] | None = None,
        rhythms: Rhythms | None = None,
        lags: LagRefreshes | None = None,
        lag_partitions_max: int | None = None,
        unsubscribed: bool = False,
        solver: Solver | None = None,
        racks: RackRules = NO_RULES,
        rules_of: Callable[[str], tuple[Rule, ...] | None] | None = None,
    ) -> None:
        self.group_id = config.group_id
        self.last: Observation | None = None
        self.rebalances = Rebalances()
        self._reader = GroupReader(config, sources, on_seen, racks)
        self._sources = sources
        self._policy = policy
        unconfigured = StreamsConfig(config.group_id, standbys_unknown=True).with_rules(policy.rules)
        application = application or Application(unconfigured, STOCK)
        self._streams = replace(application.config, topology_attested=True)  # this plan is never sent
        self._given = given = application.topology
        self._keeper = ReadOnlyTopology(self._streams.application_id, given, sources.reader.admin, sources.offsets)
        self._on_observation = on_observation
        self._on_rebalance = on_rebalance
        self._on_unknown = on_unknown
        self._lags = lags = lags or LagRefreshes(config.group_id, rhythms=rhythms)
        self._read = Weights()  # from the topic, for a command
        self._read_weights = read_weights
        weights = weights or ((lambda: self._read) if read_weights is not None else None)
        # Only `load-aware` uses those of the offsets; for other policies the plan may be reused.
        self._weights = weights or (lags.weights if policy.name == LOAD_AWARE else None)
        self._assignors = application.weighed_by(self.weights).assignors
        self._logs = None if weights else partial(read_logs, sources.transport, sources.reader.admin)
        self._unsubscribed = unsubscribed
        self._lag_partitions_max = lag_partitions_max
        self._solver = solver
        self._racks = racks
        self._rules_of = rules_of
        self._last_known: Observation | None = None  # the newest one that is not `unknown`
        self._shadow: Kept[Shadow] = Kept()
        self._anomalies: Kept[tuple[Finding, ...]] = Kept()

    @property
    def policy(self) -> Policy:
        """The policy of the shadow plan."""
        return self._policy

    @property
    def application(self) -> StreamsConfig:
        """The configuration by which the group is planned if it is an application."""
        return self._streams

    def weights(self) -> Weights:
        """Returns the weights that `load-aware` would use now."""
        return (self._weights or self._lags.weights)()

    async def refresh(self) -> None:
        """Observes the group and notifies the listeners. If brokers answer with an error or not at all, only the
        `on_unknown` listeners are called, and each new reason is logged once: this is not a state of the group."""
        try:
            seen = await self.observe()
            if seen.unknown is None:
                self._notify(seen)
            else:
                self._report_unknown(seen, seen.unknown)
        except Exception:
            log.exception("group_not_observed", group=self.group_id)

    def rest(self) -> None:
        """Forgets the last observations, because refreshes pause and they become outdated."""
        self.last = self._last_known = None

    async def observe(self) -> Observation:
        """Reads the group, its lags and its shadow plan. If brokers answer with an error or not at all, the observation
        is `unknown` and has the reason, and what `refresh` has read last: the silence of one group ends no command."""
        try:
            return await self._observe()
        except TransportError as error:
            return self._unknown(error)

    def _unknown(self, cause: int | TransportError) -> Observation:
        """Returns the last known observation, with the reason why it is not current."""
        unknown = Unknown.of(cause, self.group_id, int(clocks.wall() * 1000))
        before = self.last.unknown if self.last is not None else None
        if before is not None:
            unknown = replace(unknown, since_ms=before.since_ms)
        if self._last_known is not None:
            return replace(self._last_known, unknown=unknown)
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
        self.last = self._last_known = seen
        ended = self.rebalances.observe(seen)
        for callback in self._on_rebalance if ended is not None else ():
            notify(callback, seen, ended)
        for observer in self._on_observation:
            notify(observer, seen)

    async def _observe(self) -> Observation:
        """Does the same as `observe`, but raises TransportError if no broker answers."""
        described = await self._reader.read()
        if isinstance(described, int):
            return self._unknown(described)
        seen, answer, by_broker = described.seen_now(), described.answer, described.by_broker
        if seen.kind == "missing":
            return replace(seen, trouble="there is no such group yet")
        if seen.kind == "other":
            return seen
        seen = await self._with_lags(seen, described)
        if answer.members and (by_broker is not None or answer.state == GroupState.STABLE):
            seen = await self._with_shadow(seen, described)
        elif answer.members:
            seen = replace(seen, trouble=f"what members have is shown when the group is Stable; it is {answer.state}")
        return await self._with_anomalies(seen, described)

    async def _with_anomalies(self, seen: Observation, described: DescribedGroup) -> Observation:
        counts = {topic: len(lags) for topic, lags in seen.lags.items()}
        of = (described.seen.members, counts, seen.shadow, seen.self_assigned, seen.state, seen.hand_overs)
        anomalies = self._anomalies.get(of)
        if anomalies is None:
            at_rest = described.owners is not None
            judged = await computed(sum(counts.values()), seen.with_anomalies, at_rest=at_rest)
            anomalies = self._anomalies.put(of, judged.anomalies)
        return replace(seen, anomalies=anomalies)

    async def _with_lags(self, seen: Observation, described: DescribedGroup) -> Observation:
        """Adds lags. If they cannot be read, a note says why, and the rest of the observation is unaffected."""
        offsets, reader = self._sources.offsets, self._sources.reader
        try:
            topics = await self._topics(seen, described)
            count_of = (await reader.read(topics, METADATA_AGE_MS_MAX)).count_of
            grown = [topic for topic, p in described.highest.items() if p >= count_of.get(topic, p + 1)]
            if grown:  # the cached metadata is older than the assignment and lacks its new partitions
                reader.expire(grown)
                count_of = (await reader.read(topics, METADATA_AGE_MS_MAX)).count_of
            counts = {topic: count_of[topic] for topic in topics if topic in count_of}
            if self._lag_partitions_max is not None and sum(counts.values()) > self._lag_partitions_max:
                return replace(seen, lag_notes=(f"no lags: more than {self._lag_partitions_max:,} partitions",))
            memberless = not (seen.members or seen.bellwether_members)
            logs = self._logs if self._by_load(described.by_broker) else None
            lag = await self._lags.refresh(
                offsets, reader.admin, counts, described.owners, LIMIT_S, memberless=memberless, logs=logs
            )
        except (client.OffsetsError, ClusterUnreachableError, TransportError) as error:
            log.info("lags_unknown", group=self.group_id, reason=str(error))
            return replace(seen, lag_notes=(f"no lags: {error}",))
        missing = [topic for topic in topics if topic not in counts]
        notes = tuple(f"{topic} does not exist or may not be described: its lag is not known" for topic in missing)
        seen = replace(seen, lag_notes=notes)
        return await computed(sum(counts.values()), seen.with_lag, lag)

    async def _topics(self, seen: Observation, described: DescribedGroup) -> list[str]:
        """Returns the members' topics; if a rebalance hides them, those of the last refresh; if none are known, if a
        member subscribes by a pattern, of which brokers show what it finds only as an assignment, or with
        `unsubscribed`, all topics with committed offsets too. Raises TransportError or OffsetsError."""
        shown = described.topics
        if not shown and seen.members:
            shown = frozenset(self._lags.counts)
        if seen.patterns:
            shown = shown.union(self._lags.counts)  # what a pattern has found until now
        if shown and not self._unsubscribed and not seen.patterns:
            return sorted(shown)
        committed = await self._sources.transport.any_committed(self.group_id)
        if committed.error:
            raise client.OffsetsError(f"committed offsets of {self.group_id}: {membership.name_of(committed.error)}")
        return sorted(shown.union(committed.topics))

    async def _with_shadow(self, seen: Observation, described: DescribedGroup) -> Observation:
        answer, group = described.answer, described.by_broker
        if group is not None and group.asks_bellwether:
            refused = planning.no_plan_for_broker(group.protocol, group.assignor, self._policy)
            if refused:
                return replace(seen, trouble=REFUSED.format(refused))
        planned_from = await self._planned_from(described)
        cached = self._shadow.get(planned_from) if planned_from is not None else None
        if cached is not None:
            return replace(seen, shadow=cached)
        members = tuple(
            membership.JoinedMember(m.member_id, m.instance_id, m.metadata, "" if group is None else m.client_id)
            for m in answer.members
        )
        if self._read_weights is not None and self._by_load(group):
            self._read = await self._read_weights()
        # A dry run, with the full time limit of a plan.
        command = membership.Decide(NEWEST, answer.protocol, members, "", clocks.monotonic() + LIMIT_S, dry=True)
        try:
            compared = await self._planner(answer, group).shadow(command, membership.shown(answer))
            shadow = self._shadow.put(planned_from, Shadow.of(compared.decision, compared.present, compared.inputs))
            return replace(seen, shadow=shadow)
        except (RefusalError, TopologyError, ClusterUnreachableError, membership.NotShownError) as error:
            silent = isinstance(error, ClusterUnreachableError)
            return replace(seen, trouble=f"no shadow plan: {error}", silent=silent)

    async def _planned_from(self, described: DescribedGroup) -> PlannedFrom | None:
        """Returns the key under which a plan is reused, None if each refresh needs a new plan: weights and the lags of
        Streams tasks change all the time."""
        answer = described.answer
        by_load = self._weights is not None or self._policy_of(described.by_broker).name == LOAD_AWARE
        varies = by_load or answer.protocol in (STREAMS_PROTOCOL, STATEFUL_PROTOCOL)
        if varies or self._sources.shared is None:
            return None
        try:
            read = await self._sources.reader.read(described.topics, METADATA_AGE_MS_MAX)
            group = described.by_broker
            assignor = "" if group is None else group.assignor
            return PlannedFrom(answer, read, self._racks.version, assignor, self._rules(group))
        except ClusterUnreachableError:
            return None

    def _planner(self, answer: DescribeAnswer, group: BrokerGroup | None) -> Planner[PartitionPlan] | Planner[TaskPlan]:
        """Returns a new planner for each refresh, so that it depends only on the group's present state."""
        sources, group_id = self._sources, self.group_id
        solver = self._solver if group is None else None  # its process has the configured policy
        if answer.protocol == STATEFUL_PROTOCOL:
            kind, dialect = planning.stateful(group_id, self._streams, sources.reader, self._given, self._assignors)
            return Planner(group_id, kind, dialect=dialect, solver=solver, racks=self._racks)
        rules = self._rules(group)
        if answer.protocol != STREAMS_PROTOCOL:
            policy = self._policy_of(group)
            weights = self._weights or (self._lags.weights if policy.name == LOAD_AWARE else None)
            consumers = planning.ConsumerKind(
                sources.reader, policy.with_rules(rules) if rules else policy, weights=weights
            )
            return Planner(group_id, consumers, solver=solver, racks=self._racks)
        config, assignors = self._streams, self._assignors
        topology = self._keeper if group is None else GivenTopology(topology_of(group))
        if group is not None:
            config = planning.served_application(group, config)
            if group.asks_bellwether:
                config = config.with_rules(rules) if rules else config
                assignors = config.stock_assignors
        streams = StreamsKind(group_id, config, sources.reader, sources.offsets, topology, assignors)
        return Planner(group_id, streams, solver=solver, racks=self._racks)

    def _policy_of(self, group: BrokerGroup | None) -> Policy:
        """Returns the policy for plain consumers: the configured one, or that in the name of a broker's assignor."""
        return self._policy if group is None else planning.served_policy(group, self._policy)

    def _by_load(self, group: BrokerGroup | None) -> bool:
        """Returns whether plans depend on weights."""
        return LOAD_AWARE in (self._policy_of(group).name, self._streams.policy)

    def _rules(self, group: BrokerGroup | None) -> tuple[Rule, ...]:
        """Returns the orders in a group whose broker asks Bellwether."""
        if group is None or self._rules_of is None or not group.asks_bellwether:
            return ()
        return self._rules_of(self.group_id) or ()


def _summary(seen: Observation) -> dict[str, object]:
    """Returns the fields that are logged when they change. Lags are not among them: they change all the time."""
    shadow = seen.shadow
    return {
        "kind": seen.kind,
        "state": seen.state,
        "protocol": seen.assigned_with,
        "members": len(seen.members),
        "obstacle": seen.obstacle,
        "trouble": seen.trouble,
        "shadow_moves": shadow.moves.moved if shadow is not None else None,
    }
