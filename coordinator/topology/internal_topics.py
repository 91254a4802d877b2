"""Creates the internal topics of a Streams application, with the configs that Streams itself would use.

The plan is pure; `create_topics` executes it. Only topics that the topology describes are planned: if the kind of a
missing changelog is unknown (plain, windowed, versioned), a Java leader has to create it. Topics are not created with
fewer replicas than the application's other topics, because one broken broker would then stop the application. For the
configs and the reasons see docs/internals/streams.md#internal-topics.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bellwether_kafka.assignors.streams.application import InternalTopic, Topology, required_counts, to_describe
from bellwether_kafka.coordinator.kafka.client import any_node, with_remedy
from bellwether_kafka.coordinator.kafka.wire import grant
from bellwether_kafka.protocol.primitives import is_topic_name

BROKER_DEFAULT = -1
DEFAULT_CONFIG = "default.replication.factor"
REMEDY = 'set "replication.factor" of the group to what the application has'
_TIMESTAMPS = ("message.timestamp.type", "CreateTime")
REPARTITION_CONFIGS = MappingProxyType(
    {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1", _TIMESTAMPS[0]: _TIMESTAMPS[1]}
)
CHANGELOG_CONFIGS = MappingProxyType({"cleanup.policy": "compact", _TIMESTAMPS[0]: _TIMESTAMPS[1]})


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The application's settings for all its internal topics: `replication.factor` (-1 for the brokers' default), and
    the configs with the prefix `topic.`."""

    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


NO_DEFAULTS = TopicDefaults()


@dataclass(frozen=True, slots=True)
class Replicas:
    """Numbers of replicas. `default` is the brokers' default, None if it may not be read. `existing` are those of the
    application's existing topics."""

    default: int | None
    existing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic to create. If `replication_factor` is -1, the broker decides."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreationPlan:
    """The topics to create. `reasons` are phrases on missing topics that cannot be created."""

    topics: tuple[TopicPlan, ...]
    reasons: tuple[str, ...] = ()


class TopicCreationError(Exception):
    """A topic could not be created. The message names it and the right to grant or the setting to change."""


def plan_internal_topics(
    topology: Topology,
    existing: Mapping[str, int],
    defaults: TopicDefaults = NO_DEFAULTS,
    unreadable: Collection[str] = (),
) -> CreationPlan:
    """Returns the topics to create. `existing` are the partition counts of the topics that exist, `unreadable` are
    topics that may exist with any count: nothing is sized by them.

    A repartition topic is created if its size follows from the topology. A changelog is created only if the topology
    gives its cleanup.policy, because its configs depend on its store. Configs have Kafka's precedence: those of the
    topic win over the application's defaults, and these over those of the topic's kind.
    """
    counts = required_counts(topology, existing)
    sources = set(topology.source_topics)
    changelogs = [t for t in topology.changelogs if t not in sources]
    there = {*existing, *unreadable}
    missing = [t for t in (*topology.repartition_topics, *changelogs) if t not in there]
    if not missing:
        return CreationPlan(())
    if hidden := sorted(sources & {*unreadable}):
        return CreationPlan((), tuple(f"topic {t} cannot be read, and sizes depend on it" for t in hidden))
    if counts.missing or counts.conflicts:
        absent = [f"source topic {t} does not exist" for t in counts.missing]
        return CreationPlan((), (*absent, *counts.conflicts))
    plans: list[TopicPlan] = []
    reasons: list[str] = []
    for topic in missing:
        described = topology.internal(topic)
        size = counts.partitions.get(topic)
        if size is None:
            reasons.append(f"repartition topic {topic}: who writes it, and so its size, is not known")
        elif topic not in sources and (unknown := _undescribed(topic, described)):
            reasons.append(unknown)
        else:
            kind = REPARTITION_CONFIGS if topic in sources else CHANGELOG_CONFIGS
            factor = described.replication_factor if described else BROKER_DEFAULT
            configs = {**kind, **defaults.configs, **dict(described.configs if described else ())}
            plans.append(TopicPlan(topic, size, factor if factor > 0 else defaults.replication_factor, configs))
    return CreationPlan(tuple(plans), tuple(reasons))


def _undescribed(topic: str, described: InternalTopic | None) -> str:
    """Returns what the topology lacks to create a changelog, with the line to add; "" if it lacks nothing."""
    configs = dict(described.configs) if described else {}
    cleanup = configs.get("cleanup.policy", "")
    if not cleanup:
        return f"changelog {topic}: the topology does not say how its store is kept; {to_describe(topic)}"
    if "delete" in cleanup and "retention.ms" not in configs:
        return (
            f"changelog {topic}: without retention.ms brokers would delete its records after a time that is not its"
            f" store's; write {_line(topic, cleanup)}"
        )
    return ""


def _line(topic: str, cleanup: str) -> str:
    retention = "retention.ms: <milliseconds: retention of the store + 86400000>"
    return f'{{Name: {topic}, TopicConfigs: {{cleanup.policy: "{cleanup}", {retention}}}}}'


def with_replicas(plans: Sequence[TopicPlan], replicas: Replicas) -> tuple[TopicPlan, ...]:
    """Returns the plans with their numbers of replicas. Raises TopicCreationError if a topic would have fewer than the
    brokers' default or than another topic of the application, or if its number is unknown while others have several."""
    default = replicas.default or BROKER_DEFAULT
    whole = tuple(p if p.replication_factor > 0 else replace(p, replication_factor=default) for p in plans)
    others = [(n, f"topic {t} of the application has {n}") for t, n in sorted(replicas.existing.items())]
    most, what = max([(default, f"the brokers' {DEFAULT_CONFIG} is {default}"), *others], key=lambda pair: pair[0])
    for plan in whole:
        count, refused = plan.replication_factor, f"internal topic {plan.name} is not created"
        if count <= 0 and most > 1:
            rights = grant("DESCRIBE_CONFIGS", "Cluster", "kafka-cluster")
            unknown = f"{what}, but the brokers' {DEFAULT_CONFIG} cannot be read"
            raise TopicCreationError(f"{refused}: {unknown}; {REMEDY}, or {rights}")
        if 0 < count < most:
            having = f"it would have {count} replica{'s' if count > 1 else ''}"
            raise TopicCreationError(f"{refused}: {having}, and {what}; {REMEDY}")
    return whole


def read_replicas(admin: AdminClient, topics: Collection[str], limit_s: float) -> Replicas:
    """Reads the numbers of replicas. Blocks. Raises TopicCreationError if no broker answers."""
    try:
        listed: Mapping[str, Any] = admin.list_topics(timeout=limit_s).topics
    except KafkaException as error:
        raise TopicCreationError(f"the replicas of topics cannot be read: {error.args[0].str()}") from error
    replica_counts = {t: [len(p.replicas) for p in listed[t].partitions.values()] for t in topics if t in listed}
    return Replicas(_default(admin, limit_s), {t: min(counts) for t, counts in replica_counts.items() if counts})


def _default(admin: AdminClient, limit_s: float) -> int | None:
    """Returns the default replication factor of one broker, None if it cannot be read."""
    try:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(any_node(admin, limit_s).node_id))
        configs = admin.describe_configs([resource], request_timeout=limit_s)[resource].result(limit_s + 1)
        return int(configs[DEFAULT_CONFIG].value)
    except (KafkaException, TimeoutError, LookupError, TypeError, ValueError):
        return None


def create_topics(admin: AdminClient, plans: Sequence[TopicPlan], limit_s: float) -> frozenset[str]:
    """Creates the topics and returns the new ones. A topic that exists by now is no error.

    Blocks for at most a little over `limit_s`. Raises TopicCreationError.
    """
    if not plans:
        return frozenset()
    impossible = next((p.name for p in plans if not is_topic_name(p.name)), None)
    if impossible is not None:
        raise TopicCreationError(f"no topic can be called {impossible!r:.80}; correct the topology file")
    topics = [
        NewTopic(p.name, num_partitions=p.partitions, replication_factor=p.replication_factor, config=dict(p.configs))
        for p in plans
    ]
    created: set[str] = set()
    asked: Mapping[str, Future[Any]] = admin.create_topics(topics, operation_timeout=limit_s, request_timeout=limit_s)
    for name, answer in asked.items():
        try:
            answer.result(limit_s + 1)
            created.add(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicCreationError(_sentence(name, error.args[0])) from error
        except TimeoutError as error:
            raise TopicCreationError(f"internal topic {name} could not be created in {limit_s:g} s") from error
    return frozenset(created)


def _sentence(name: str, error: KafkaError) -> str:
    return f"internal topic {name} could not be created: {with_remedy(error, 'CREATE', name)}"
