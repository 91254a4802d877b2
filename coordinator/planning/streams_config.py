"""What the planner of one Streams application is told: frozen, and free of the libraries that read settings."""

from dataclasses import dataclass, field
from pathlib import Path

from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs

TASK_STALL_MS = 600_000


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """`topology` is a file, None: it is learned. `standby_lag_max` is in records, None: nothing is done about it. Tasks
    that commit nothing for `task_stall_ms` although they have records to read are a reason to step aside. `durable`:
    stores are said to be persistent, and a crash does not wipe them (as it does under exactly_once_v2)."""

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
