"""The settings of a group that is a Kafka Streams application. The configuration of its members is not on the wire, so
it is repeated here, under Kafka's own names:

    [[groups]]
    name = "wordcount"                         # the application id
    mode = "lead"
    kind = "streams"
    topology = "wordcount.yaml"                # none: learned from the running application
    topology_attested = true                   # every version of the application that may join has this topology
    policy = "kafka"                           # or "streams-ha", or a plug-in
    "processing.guarantee" = "at_least_once"
    stores = "persistent"                      # this and the line above: adopt = "take-over" needs them, and with them
                                               # a restarted process gets its tasks back at once (streams-ha)
    "num.standby.replicas" = 1
    "rack.aware.assignment.strategy" = "min_traffic"
    "replication.factor" = 3                   # of internal topics that Bellwether creates before the application does
    "topic.segment.bytes" = 1048576            # and any other config that the application sets with this prefix

The policy "streams-ha" has additional stages, which Kafka does not have. Each is off unless it is set:

    host_affinity_ms = 300000                  # a process that is back within this time is preferred for its tasks
    colocate = [[0, 2], [1, 3]]                # subtopologies whose tasks of one partition share a process
    capacity_tag = "cores"                     # the client tag that weighs a process, instead of its threads
    max_concurrent_moves = 4                   # active tasks that may move between live processes at once

Stateful members that are not Streams (docs/guides/stateful-members.md) have kind = "stateful". Their policy is
streams-ha, weighted by the capacity that members report. Settings that concern only Java applications are refused.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bellwether_kafka.assignors.stateful import CAPACITY_TAG
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    STREAMS_SESSION_MS_MAX,
    STREAMS_SESSION_MS_MIN,
    NotLeading,
    Obstacle,
)
from bellwether_kafka.coordinator.planning import STORES_UNDECLARED, StreamsConfig
from bellwether_kafka.coordinator.properties import flattened
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL

ONLY_PROTOCOL = {
    "streams": (STREAMS_PROTOCOL, "a Streams application"),
    "stateful": (STATEFUL_PROTOCOL, "stateful members"),
}
DEFAULTS = AssignmentConfigs()
TOPIC_PREFIX = "topic."  # prefix of configs for every internal topic


def _tags(value: object) -> object:
    """Splits a list that is written with commas, as in Kafka."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _texts(value: object) -> object:
    """Returns TOML numbers and booleans as texts, as in Kafka's configs."""
    if not isinstance(value, dict):
        return value
    return {name: str(given).lower() if isinstance(given, bool) else str(given) for name, given in value.items()}


class StreamsSettings(BaseModel):
    """The settings that only applications have. Names with dots are Kafka's."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=False)

    kind: Literal["consumer", "streams", "stateful"] = Field(
        default="consumer",
        description="`streams` for a Kafka Streams application, `stateful` for other members with state",
    )
    topology: Path | None = Field(
        default=None,
        description="the topology file, relative to the configuration file; without one, Bellwether learns from the"
        " running application",
    )
    topology_attested: bool = Field(
        default=False,
        description="every version of the application that may join has this topology; missing internal topics are"
        " made before any member has come",
    )
    standby_lag_max: int | None = Field(
        default=None, ge=0, description="a rebalance when a standby falls back further than so many records"
    )
    processing_guarantee: Literal["at_least_once", "exactly_once_v2"] = Field(
        default="at_least_once",
        alias="processing.guarantee",
        description="as the application has it; while it is not declared, no running application is taken over",
    )
    # Neither the guarantee nor the kind of stores is on the wire, but both decide what removing a leader costs. If they
    # are not declared, Bellwether only succeeds a leader that leaves.
    stores: Literal["persistent", "in-memory"] | None = Field(
        default=None,
        description="as the application has them; taking over needs `persistent` unless the topology file has no"
        ' changelog; with `"processing.guarantee" = "at_least_once"` declared, too, a restarted process has its tasks'
        " back at once (policy `streams-ha`)",
    )
    takeover_forced: bool = Field(
        default=False, description="take over a running exactly-once application: its removed thread wipes its state"
    )
    acceptable_recovery_lag: int = Field(
        default=DEFAULTS.acceptable_recovery_lag,
        alias="acceptable.recovery.lag",
        description="Kafka's: a task may move to a process that is at most so many records behind",
    )
    max_warmup_replicas: int = Field(
        default=DEFAULTS.max_warmup_replicas, alias="max.warmup.replicas", description="Kafka's"
    )
    num_standby_replicas: int = Field(
        default=DEFAULTS.num_standby_replicas,
        alias="num.standby.replicas",
        description="Kafka's; must be the application's own",
    )
    probing_rebalance_interval_ms: int = Field(
        default=DEFAULTS.probing_rebalance_interval_ms, alias="probing.rebalance.interval.ms", description="Kafka's"
    )
    rack_aware_assignment_strategy: str = Field(
        default=DEFAULTS.rack_aware_assignment_strategy, alias="rack.aware.assignment.strategy", description="Kafka's"
    )
    rack_aware_assignment_tags: Annotated[tuple[str, ...], BeforeValidator(_tags)] = Field(
        default=(), alias="rack.aware.assignment.tags", description="Kafka's"
    )
    rack_aware_traffic_cost: int | None = Field(
        default=None, alias="rack.aware.assignment.traffic_cost", description="Kafka's"
    )
    rack_aware_non_overlap_cost: int | None = Field(
        default=None, alias="rack.aware.assignment.non_overlap_cost", description="Kafka's"
    )

    replication_factor: int = Field(
        default=-1,
        ge=-1,
        le=32767,
        alias="replication.factor",
        description="Kafka's, for internal topics that Bellwether creates; -1: the brokers' default, below which it"
        " never goes, nor below another topic of the application",
    )
    topic_configs: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(
        default_factory=dict,
        alias="topic",
        description="`topic.<config>`, as the application has it: for every internal topic that Bellwether creates",
    )

    host_affinity_ms: int = Field(
        default=0,
        description="`streams-ha`: how long a process that has gone is expected back, and then preferred for its tasks",
    )
    colocate: tuple[tuple[int, ...], ...] = Field(
        default=(), description="`streams-ha`: groups of subtopologies whose tasks of one partition share a process"
    )
    capacity_tag: str = Field(
        default="", description="`streams-ha`: the client tag that weighs a process; threads weigh where it is not set"
    )
    max_concurrent_moves: int = Field(
        default=0, description="`streams-ha`: how many active tasks may be on their way at once; 0 for any number"
    )

    @model_validator(mode="before")
    @classmethod
    def _takes_kafka_names(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        own = {name: table for name, table in value.items() if name in cls.model_fields}  # some are tables by right
        properties = flattened({name: table for name, table in value.items() if name not in own})
        configured = {name: properties.pop(name) for name in [*properties] if name.startswith(TOPIC_PREFIX)}
        if configured:
            properties["topic"] = {name.removeprefix(TOPIC_PREFIX): text for name, text in configured.items()}
        return own | properties

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "consumer":
            given = sorted(_shown(name) for name in self.model_fields_set & STREAMS_FIELDS)
            if given:
                raise ValueError(f'{given[0]} is for Streams applications only; add kind = "streams" or remove it')
            return self
        self.assignment_configs()  # raises an error for a value that Kafka would refuse
        self.stage_configs()
        if self.replication_factor == 0:
            raise ValueError("replication.factor must be at least 1, or -1 for the brokers' default, but it is 0")
        given = sorted(_shown(name) for name in self.model_fields_set & NOT_FOR_STATEFUL)
        if given and self.kind == "stateful":
            raise ValueError(f'{given[0]} has no effect on stateful members (kind = "stateful"); remove it')
        return self

    def assignment_configs(self) -> AssignmentConfigs:
        """Returns the settings as Kafka's assignment configs. Raises AssignmentConfigError."""
        return AssignmentConfigs(**{name: getattr(self, name) for name in CONFIG_FIELDS})

    def takeover_obstacle(self) -> Obstacle | None:
        """Returns why no leader of this application may be removed, None if one may
        (docs/guides/adoption.md#safeguards)."""
        if self.kind != "streams" or self.takeover_forced:
            return None
        if "processing_guarantee" not in self.model_fields_set:
            also = "" if self.stores == "persistent" else ' and stores = "persistent"'
            sentence = (
                f'processing.guarantee is not declared; write "processing.guarantee" = "at_least_once"{also} as the'
                ' application has it, or adopt = "succeed"'
            )
            return Obstacle(NotLeading.UNDECLARED, sentence)
        if self.processing_guarantee == "exactly_once_v2":
            sentence = (
                "under exactly_once_v2 the removed leader would lose the local state of its tasks, so Bellwether waits"
                " until its instance is restarted"
            )
            return Obstacle(NotLeading.MEMBER_LEADS, sentence)
        if self.stores != "persistent":
            return STORES_UNDECLARED
        return None

    def stage_configs(self) -> StageConfigs:
        """Returns the settings of the stages. Raises AssignmentConfigError."""
        return StageConfigs(**{name: getattr(self, name) for name in STAGE_FIELDS}, clock=time.perf_counter)

    def stage_trouble(self, policy: str) -> str | None:
        """Returns why the configured stages cannot be used with this policy, as a phrase; None if they can."""
        given = sorted(name for name in STAGE_FIELDS if getattr(self, name))
        if not given or policy == STREAMS_HA:
            return None
        return f'{given[0]} is a stage of the policy "{STREAMS_HA}"; set policy = "{STREAMS_HA}" or remove {given[0]}'

    def streams_config(self, name: str, policy: str) -> StreamsConfig | None:
        """Returns the application's configuration, None for a group of plain consumers."""
        if self.kind == "consumer":
            return None
        stages = self.stage_configs()
        if self.kind == "stateful" and policy == STREAMS_HA and not stages.capacity_tag:
            stages = replace(stages, capacity_tag=CAPACITY_TAG)
        declared = "processing_guarantee" in self.model_fields_set  # set explicitly
        at_least_once = declared and self.processing_guarantee == "at_least_once"
        return StreamsConfig(
            application_id=name,
            topology=self.topology,
            topology_attested=self.topology_attested,
            exactly_once=self.processing_guarantee == "exactly_once_v2",
            policy=policy,
            configs=self.assignment_configs(),
            standby_lag_max=self.standby_lag_max,
            stages=stages,
            stateful=self.kind == "stateful",
            durable=at_least_once and self.stores == "persistent",
            replication_factor=self.replication_factor,
            topic_configs=tuple(sorted(self.topic_configs.items())),
        )


CONFIG_FIELDS = frozenset(AssignmentConfigs.__dataclass_fields__)
STAGE_FIELDS = frozenset(StageConfigs.__dataclass_fields__) - {
    "rules",
    "clock",
}  # orders of operators, and the service's
STREAMS_FIELDS = frozenset(StreamsSettings.model_fields) - {"kind"}
NOT_FOR_STATEFUL = frozenset(
    {"topology_attested", "processing_guarantee", "stores", "takeover_forced", "standby_lag_max"}
    | {"replication_factor", "topic_configs"}
)


def trouble_for(kind: str, protocols: tuple[str, ...], session_timeout_ms: int) -> str | None:
    """Returns which common setting a group of this kind cannot have, as a phrase; None if there is none."""
    only, whom = ONLY_PROTOCOL.get(kind, (None, ""))
    if only is not None and protocols != (only,):
        return f'protocols must be ["{only}"] for {whom}; remove the setting'
    if kind == "streams" and not STREAMS_SESSION_MS_MIN <= session_timeout_ms <= STREAMS_SESSION_MS_MAX:
        return (
            f"session_timeout_ms must be {STREAMS_SESSION_MS_MIN} to {STREAMS_SESSION_MS_MAX} for a Streams"
            " application, because its commits, and so its transactions, may have to wait for Bellwether that long"
        )
    return None


def _shown(field_name: str) -> str:
    return StreamsSettings.model_fields[field_name].alias or field_name
