"""What the planner of a Streams application is configured with: frozen, and free of the libraries that read
settings."""

from dataclasses import dataclass, field
from pathlib import Path

from bellwether_kafka.assignors.shared import ClusterView, RawGroup
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
    """`topology` is a file, None: it is learned. `standby_lag_max` is in records, None: nothing is done about it. Tasks
    that commit nothing for `task_stall_ms` although they have records to read are a reason to step aside. `durable`:
    stores are said to be persistent, and a crash does not wipe them (as it does under exactly_once_v2). What the
    application sets for all internal topics: `replication_factor` (-1: the brokers' default), `topic_configs`.
    `standbys_unknown`: num.standby.replicas is what the present plan has, for who only looks at the application."""

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


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Processes that came and went while Bellwether led, with the time of it (epoch milliseconds); when those that are
    here have restarted lately; and by subtopology the sum of its changelogs' ends when they were read last."""

    came: dict[ProcessId, int] = field(default_factory=dict)
    went: dict[ProcessId, int] = field(default_factory=dict)
    restarts: dict[ProcessId, tuple[int, ...]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """What one decision is made from. `removed`: see `commands.Decide`."""

    raw: RawGroup
    topology: Topology
    cluster: ClusterView
    ends: EndOffsets
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A world, and what the planner knew when it asked. Nobody acts on a `dry` plan."""

    world: World
    config: StreamsConfig
    memory: StreamsMemory
    arrivals: Arrivals
    witnesses: frozenset[str]
    now_ms: int
    seed: int
    message_bytes_max: int
    dry: bool = False
