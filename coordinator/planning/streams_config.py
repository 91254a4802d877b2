"""The configuration and the input of the planner for a Streams application: immutable, without the libraries that read
settings."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from bellwether_kafka.assignors.shared import ClusterView, RawGroup, Rule
from bellwether_kafka.assignors.streams import Assignors, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Topology
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs
from bellwether_kafka.coordinator.membership import NotLeading, Obstacle
from bellwether_kafka.protocol.primitives import ProcessId

TASK_STALL_MS = 600_000
STORES_UNDECLARED = Obstacle(
    NotLeading.UNDECLARED,
    'stores = "persistent" is not declared, and in-memory stores would have to be restored; write it if the application'
    ' has no others, or adopt = "succeed"',
)


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The configuration of the planner.

    `topology`: a file; None: it is learned. `task_stall_ms`: how long a task with records to read may commit nothing
    before an alert; if shorter than 5 min, also how long a whole group may, before it is handed back.
    `standby_lag_max`: in records; None: no limit. `durable`: stores are declared persistent, and a crash does not
    delete them (as it does under exactly_once_v2). `replication_factor` (-1: the brokers' default) and `topic_configs`
    apply to all internal topics. `standbys_unknown`: take num.standby.replicas from the present plan, for applications
    that are only observed.
    """

    application_id: str
    topology: Path | None = None
    topology_attested: bool = False
    exactly_once: bool = False
    policy: str = "kafka"
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    task_stall_ms: int = TASK_STALL_MS
    standby_lag_max: int | None = None
    stages: StageConfigs = NO_STAGES
    stateful: bool = False
    durable: bool = False
    replication_factor: int = -1
    topic_configs: tuple[tuple[str, str], ...] = ()
    standbys_unknown: bool = False

    @property
    def stock_assignors(self) -> Assignors:
        """The stock policies with the configured stages."""
        return stock(self.stages, durable=self.durable)

    def with_rules(self, rules: tuple[Rule, ...]) -> "StreamsConfig":
        """Returns the configuration under an operator's orders on placement, which only `streams-ha` applies."""
        return replace(self, stages=replace(self.stages, rules=rules))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Processes that came and went while Bellwether led, and when (epoch milliseconds). `restarts`: when processes that
    are present have restarted lately. `ends`: by subtopology, the sum of its changelogs' end offsets at the last
    read."""

    came: dict[ProcessId, int] = field(default_factory=dict)
    went: dict[ProcessId, int] = field(default_factory=dict)
    restarts: dict[ProcessId, tuple[int, ...]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """What was read for one decision. `removed`: see `commands.Decide`."""

    raw: RawGroup
    topology: Topology
    cluster: ClusterView
    ends: EndOffsets
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The complete input of a plan: what was read, and what the planner knew. A `dry` plan is not sent."""

    world: World
    config: StreamsConfig
    memory: StreamsMemory
    arrivals: Arrivals
    learned_from_members: frozenset[str]
    now_ms: int
    seed: int
    message_bytes_max: int
    dry: bool = False
