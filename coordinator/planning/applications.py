"""An application to be led: creates its topology, its assignors and its planner from its settings. All errors in these
settings are found here, before the service starts.

An application is one of Kafka Streams, or a group of stateful members that are not: their messages are translated into
those of an application, and the plan back. The members' own reports replace end offsets.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from bellwether_kafka.assignors import stateful as translate
from bellwether_kafka.assignors import streams
from bellwether_kafka.assignors.consumer import POLICIES, LoadAware
from bellwether_kafka.assignors.shared import ClusterView, Decision, RefusalCause, RefusalError, Rule, Weights
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    EndOffsets,
    StreamsPlan,
    StreamsView,
    Topology,
    TopologyError,
)
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE, STREAMS_HA, STREAMS_POLICIES, assign_streams
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import ClusterReader, OffsetReader, Offsets
from bellwether_kafka.coordinator.membership import Decide, MembershipConfig, Obstacle, ShownGroup
from bellwether_kafka.coordinator.planning.planned import METADATA_AGE_MS_MAX, Dialect
from bellwether_kafka.coordinator.planning.planner import Planner
from bellwether_kafka.coordinator.planning.racks import NO_RULES, RackRules
from bellwether_kafka.coordinator.planning.solver import Solver
from bellwether_kafka.coordinator.planning.streams_inputs import STORES_UNDECLARED, StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import STALE_METADATA_MS_MAX, StreamsKind
from bellwether_kafka.coordinator.planning.threads import Turns
from bellwether_kafka.coordinator.topology import (
    GivenTopology,
    TopicDefaults,
    TopologyKeeper,
    WatchedFile,
    topology_of_application,
)

DIALECT_SHARE = 0.25  # share of the time until the deadline; metadata read here are not read again


class ApplicationError(Exception):
    """Raised for an error in the settings of an application; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application that can be led. `topology` is that of the file; None if it has to be learned."""

    config: StreamsConfig
    assignors: Assignors
    topology: Topology | None = None

    def membership(self, config: MembershipConfig) -> MembershipConfig:
        """Returns `config` completed for the application. Bellwether subscribes to its topics, so that their offsets do
        not expire. Without a topology file an empty group is left to a Java member, from which the topology is learned.
        Applying this to its own result changes nothing."""
        topics = self.topology.source_topics if self.topology is not None else ()
        knows_enough = self.topology is not None or self.config.stateful
        return replace(
            config, topics=config.topics or topics, adopt_empty=knows_enough, takeover_obstacle=self._guard(config)
        )

    def weighed_by(self, weights: Callable[[], Weights]) -> "Application":
        """Returns an application that is planned by these weights if its policy uses any."""
        if self.config.policy != LOAD_AWARE:
            return self
        return replace(self, assignors=replace(self.assignors, assign=partial(_by_load, weights)))

    def _guard(self, config: MembershipConfig) -> Obstacle | None:
        """Returns the obstacle to a take-over. Undeclared stores are none for an application without changelogs, which
        has nothing to restore."""
        stateless = self.topology is not None and not (self.topology.changelogs or self.topology.undecided)
        return None if stateless and config.takeover_obstacle == STORES_UNDECLARED else config.takeover_obstacle

    @property
    def obstacle(self) -> str:
        """Why the application cannot be led with this topology file, as one sentence; "" if it can."""
        if self.topology is None or not self.topology.obstacle:
            return ""
        return f"The topology file {self.config.topology} cannot be led with: {self.topology.obstacle}."

    @property
    def foreign(self) -> bool:
        """True if its policy is a plug-in."""
        return self.config.policy not in STREAMS_POLICIES

    def with_rules(self, rules: tuple[Rule, ...]) -> "Application":
        """Returns the application under an operator's orders on placement, which only `streams-ha` applies: by its own
        policy, or where a broker asks Bellwether."""
        config = self.config.with_rules(rules)
        if not rules or config.policy != STREAMS_HA:
            return replace(self, config=config)
        return replace(self, config=config, assignors=config.stock_assignors)

    def planner(
        self,
        group_id: str,
        reader: ClusterReader,
        offsets: OffsetReader,
        message_bytes_max: int,
        solver: Solver,
        racks: RackRules = NO_RULES,
        turns: Turns | None = None,
    ) -> tuple[Planner[TaskPlan], StreamsKind]:
        """Returns the planner and the kind of group that it uses."""
        dialect = None
        if self.config.stateful:
            kind, dialect = stateful(group_id, self.config, reader, self.topology, self.assignors)
        else:
            defaults = TopicDefaults(self.config.replication_factor, dict(self.config.topic_configs))
            application_id, path = self.config.application_id, self.config.topology
            file = WatchedFile(path, partial(_usable, self.config, path)) if path is not None else None
            keeper = TopologyKeeper(application_id, self.topology, reader.admin, offsets, defaults, file=file)
            kind = StreamsKind(group_id, self.config, reader, offsets, keeper, self.assignors)
        planner = Planner(
            group_id,
            kind,
            dialect=dialect,
            message_bytes_max=message_bytes_max,
            solver=solver,
            racks=racks,
            turns=turns,
        )
        return planner, kind


def load_application(config: StreamsConfig, weights: Callable[[], Weights] | None = None) -> Application:
    """Reads the topology file and finds the policy, which may use `weights`. Raises ApplicationError."""
    application = Application(config, _assignors(config), _topology(config))
    return application if weights is None else application.weighed_by(weights)


def _by_load(weights: Callable[[], Weights], view: StreamsView, configs: AssignmentConfigs, policy: str) -> StreamsPlan:
    return assign_streams(view, configs, policy, load=LoadAware(weights()))


def _topology(config: StreamsConfig) -> Topology | None:
    if config.topology is None:
        return None
    try:
        return _usable(config, config.topology)
    except TopologyError as error:
        raise ApplicationError(str(error)) from error


def _usable(config: StreamsConfig, path: Path) -> Topology:
    """Returns the topology of a file that agrees with the settings. Raises TopologyError."""
    topology = topology_of_application(path, config.application_id)
    if config.durable and topology.exported is not None and topology.exported.in_memory_stores:
        names = ", ".join(topology.exported.in_memory_stores)
        raise TopologyError(
            f'The setting stores of {config.application_id} is "persistent", but by the topology file {path}'
            f' these stores are in memory: {names}; write stores = "in-memory".'
        )
    return topology


def _assignors(config: StreamsConfig) -> Assignors:
    if config.policy in STREAMS_POLICIES:
        return config.stock_assignors
    try:
        return replace(streams.STOCK, assign=PluginPolicy(config), without_lags=True)
    except streams.PluginError as error:
        raise ApplicationError(
            f"The setting policy of group {config.application_id} cannot be used: {error}"
            f"{f'; {config.policy} is for groups of consumers' * (config.policy in POLICIES)}."
        ) from error


class PluginPolicy:
    """A KIP-924 task assignor from an entry point, with its health. The previous plan is what threads report, so a plan
    that was never delivered is never used as the previous one."""

    def __init__(self, config: StreamsConfig) -> None:
        self._assignor = streams.load_task_assignor(config.policy, asdict(config.configs), STREAMS_POLICIES)
        self._health = streams.PluginHealth()

    def __call__(self, view: StreamsView, configs: AssignmentConfigs, _policy: str) -> StreamsPlan:
        run = streams.run_plugin(self._assignor, view, configs, self._health, now_ms=view.now_ms, cluster=view.cluster)
        self._health = run.health
        return replace(run.plan, notes=(*run.plan.notes, *run.notes))


# ---- stateful members that are not Streams: translated into an application, and the plan back ----------------------


class UnreadableTopicsError(Exception):
    """Raised if the members' metadata cannot be translated now; the message names a topic."""


class Reported(GivenTopology):
    """What the members of the present rebalance report about topics and the size of their state. They report it each
    time they join, and create their topics themselves."""

    def __init__(self, declared: Topology | None) -> None:
        super().__init__(declared)
        self.declared, self.ends = declared, EndOffsets()

    async def end_offsets(self, *_: object) -> EndOffsets:
        """Returns the end offsets that the members have reported."""
        return self.ends

    async def committed(self, *_: object) -> Offsets:
        """Returns nothing: only the creation of topics needs committed offsets, and members create their own."""
        return {}


class StatefulDialect(Dialect[TaskPlan]):
    """The dialect of one group. `last_cluster` returns the cluster of the plan delivered last."""

    def __init__(
        self, group_id: str, reader: ClusterReader, reported: Reported, last_cluster: Callable[[], ClusterView]
    ) -> None:
        self._group_id = group_id
        self._reader = reader
        self._reported = reported
        self._last_cluster = last_cluster

    async def joined(self, command: Decide, limit_s: float) -> Decide:
        """Translates the members' metadata. Raises RefusalError if metadata of topics cannot be read and none are
        remembered."""
        others = [m for m in command.members if m.member_id != command.own_member_id]
        try:
            words = await self._in_streams_words([m.metadata for m in others], limit_s * DIALECT_SHARE)
        except Exception as error:
            reason = f"no metadata: {str(error) or type(error).__name__}"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        metadata = dict(zip((m.member_id for m in others), words, strict=True))
        members = tuple(replace(m, metadata=metadata.get(m.member_id, m.metadata)) for m in command.members)
        return replace(command, members=members)

    async def described(self, group: ShownGroup) -> ShownGroup:
        """Translates a described group. Raises UnreadableTopicsError, because partitions of unread topics would count
        as unowned."""
        words = await self._in_streams_words([m.metadata for m in group.members], None, whole=True)
        pairs = zip(group.members, words, strict=True)
        return replace(group, members=tuple(replace(m, metadata=metadata) for m, metadata in pairs))

    async def answered(self, decision: Decision[TaskPlan]) -> Decision[TaskPlan]:
        sent = await asyncio.to_thread(translate.from_streams, decision)
        findings = translate.inspect_stateful(decision, sent)
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        return replace(decision, assignments=sent)

    async def _in_streams_words(
        self, metadata: Sequence[bytes], limit_s: float | None, *, whole: bool = False
    ) -> list[bytes]:
        decoded = await asyncio.to_thread(lambda: list(map(translate.read_member, metadata)))
        topology = self._reported.declared or translate.topology_of(self._group_id, decoded)
        if topology is None:
            return list(metadata)
        async with asyncio.timeout(limit_s):
            cluster = await self._sizes(topology.topics)
        if whole and cluster.unreadable:
            raise UnreadableTopicsError(f"metadata of topic {min(cluster.unreadable)} cannot be read")
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        return await asyncio.to_thread(self._encoded, decoded, translate.stateful_topology(topology, counts), counts)

    async def _sizes(self, topics: tuple[str, ...]) -> ClusterView:
        remembered = self._last_cluster().index.keys() >= set(topics)
        return await self._reader.snapshot(topics, STALE_METADATA_MS_MAX if remembered else METADATA_AGE_MS_MAX)

    def _encoded(
        self, decoded: list[translate.DecodedMember], topology: Topology, counts: Mapping[str, int]
    ) -> list[bytes]:
        self._reported.topology = topology
        self._reported.ends = translate.end_offsets(topology, counts, decoded, int(clocks.wall() * 1000))
        return [translate.as_streams(member, topology, counts) for member in decoded]


def stateful(
    group_id: str, config: StreamsConfig, reader: ClusterReader, declared: Topology | None, assignors: Assignors
) -> tuple[StreamsKind, StatefulDialect]:
    """Returns the kind and the dialect for the planner of such a group. `declared` is the topology file's; None: one
    topic group of all topics. Members report the topology themselves, so it needs no attestation."""
    reported, config = Reported(declared), replace(config, topology_attested=True)
    kind = StreamsKind(group_id, config, reader, reported, reported, assignors)
    return kind, StatefulDialect(group_id, reader, reported, lambda: kind.memory.plan.cluster)
