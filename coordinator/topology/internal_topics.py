"""Creating the internal topics of a Streams application, with the configs that Streams itself would use.

The plan is pure; `create_topics` executes it. Only topics that the topology describes are planned: where a missing
changelog's kind is not known (plain, windowed, versioned), a Java leader has to create it. The configs and the reason:
docs/reference/streams.md#internal-topics.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bellwether_kafka.assignors.streams.application import Topology, required_counts, to_describe
from bellwether_kafka.coordinator.kafka import with_remedy

BROKER_DEFAULT = -1
_TIMESTAMPS = ("message.timestamp.type", "CreateTime")
REPARTITION_CONFIGS = MappingProxyType(
    {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1", _TIMESTAMPS[0]: _TIMESTAMPS[1]}
)
CHANGELOG_CONFIGS = MappingProxyType({"cleanup.policy": "compact", _TIMESTAMPS[0]: _TIMESTAMPS[1]})


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic to create. `replication_factor` -1 leaves it to the broker."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreationPlan:
    """`topics` can be created; `reasons` say, as sentence parts, why others that are missing cannot."""

    topics: tuple[TopicPlan, ...]
    reasons: tuple[str, ...] = ()


class TopicCreationError(Exception):
    """A topic could not be created; the message names it and what to grant or set."""


def plan_internal_topics(
    topology: Topology, existing: Mapping[str, int], *, replication_factor: int = BROKER_DEFAULT
) -> CreationPlan:
    """What to create, given the partition counts of the topics that exist.

    A repartition topic is created if its size follows from the topology; a changelog only if the topology holds an
    entry for it, because its configs depend on its store.
    """
    counts = required_counts(topology, existing)
    sources = set(topology.source_topics)
    changelogs = [t for t in topology.changelogs if t not in sources]
    missing = [t for t in (*topology.repartition_topics, *changelogs) if t not in existing]
    if not missing:
        return CreationPlan(())
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
        elif topic not in sources and described is None:
            reasons.append(f"changelog {topic}: the topology does not describe it; {to_describe(topic)}")
        else:
            defaults = REPARTITION_CONFIGS if topic in sources else CHANGELOG_CONFIGS
            factor = described.replication_factor if described else BROKER_DEFAULT
            configs = {**defaults, **dict(described.configs if described else ())}
            plans.append(TopicPlan(topic, size, factor if factor > 0 else replication_factor, configs))
    return CreationPlan(tuple(plans), tuple(reasons))


def create_topics(admin: AdminClient, plans: Sequence[TopicPlan], limit_s: float) -> frozenset[str]:
    """Creates the topics and returns those that are new; one that somebody else created meanwhile is fine.

    Blocks for at most a little over `limit_s`. Raises TopicCreationError.
    """
    if not plans:
        return frozenset()
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
