"""Learns a topology from a running application, with the partition counts and end offsets from its brokers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import CHANGELOG, TopologyError
from bellwether_kafka.coordinator.kafka.client import OffsetReader, OffsetsError
from bellwether_kafka.coordinator.topology.changelog_search import NONE_SERVES
from bellwether_kafka.coordinator.topology.learn import Learned
from bellwether_kafka.coordinator.topology.offset_fit import Ends
from bellwether_kafka.protocol.primitives import is_topic_name

STREAMS_PROTOCOL = "stream"
ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


async def learn_live(
    application_id: str,
    described: Sequence[AssignedMember],
    admin: AdminClient,
    offsets: OffsetReader,
    limit_s: float,
    earlier: Ends | None = None,
    serving: Mapping[int, str] = NONE_SERVES,
) -> Learned:
    """Returns the topology of a Stable group from its DescribeGroups answer. `earlier` are the end offsets of its
    changelogs when the same members were first learned from: a changelog that has grown since is in use. `serving`: see
    `Learned.of`. Raises TopologyError."""
    counts = await asyncio.to_thread(topic_counts, admin, limit_s, f"{application_id}-")
    changelogs = {t: n for t, n in counts.items() if t.startswith(f"{application_id}-") and t.endswith(CHANGELOG)}
    try:
        ends = await offsets.ends(changelogs, limit_s)
    except OffsetsError:
        ends = None  # only needed if names and sizes do not suffice; the topology stays undecided then
    others = await asyncio.to_thread(applications_like, admin, application_id, limit_s)
    return await asyncio.to_thread(Learned.of, application_id, described, counts, ends, others, earlier, serving)


def applications_like(admin: AdminClient, application_id: str, limit_s: float) -> frozenset[str]:
    """Returns the other Streams applications whose ids begin with this one, as far as Bellwether may see them: their
    changelogs have the prefix of this application too.

    Blocks. Raises TopologyError if a broker does not answer or answers with an error other than a missing right,
    because such an application may exist then.
    """
    try:
        listed: Any = admin.list_consumer_groups(request_timeout=limit_s).result(limit_s + 1)
        for error in listed.errors or ():
            # confluent-kafka lists KafkaError, which ends a thread if it is raised itself, or KafkaException.
            raise error if isinstance(error, KafkaException) else KafkaException(error)
        named = [group.group_id for group in listed.valid if group.group_id.startswith(f"{application_id}-")]
        asked: Mapping[str, Any] = admin.describe_consumer_groups(named, request_timeout=limit_s) if named else {}
        return frozenset(name for name, answer in asked.items() if _runs_streams(answer, limit_s))
    except (KafkaException, TimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer in time"
        raise TopologyError(f"the groups named {application_id}-... cannot be read: {why}; try again") from error


def _runs_streams(answer: Any, limit_s: float) -> bool:
    """Returns whether the group is a Streams application. False for a group without members, whose type is unknown, and
    for one that Bellwether may not see. Raises KafkaException."""
    try:
        return bool(answer.result(limit_s + 1).partition_assignor == STREAMS_PROTOCOL)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise
        return False


def topic_configs(admin: AdminClient, topics: Sequence[str], limit_s: float) -> dict[str, dict[str, str]]:
    """Returns the configs set on each topic itself, without topics whose configs Bellwether may not read. Blocks."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics if is_topic_name(topic)]
    configs: dict[str, dict[str, str]] = {}
    if not resources:
        return configs
    for resource, answer in admin.describe_configs(resources, request_timeout=limit_s).items():
        try:
            entries = answer.result(limit_s + 1)
        except (KafkaException, TimeoutError):
            continue
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG
        configs[resource.name] = {name: e.value for name, e in entries.items() if e.source in (own, own.value)}
    return configs


def topic_counts(admin: AdminClient, limit_s: float, required: str = "") -> dict[str, int]:
    """Returns the partition counts of all topics that Bellwether may see. Blocks. Raises TopologyError if no broker
    answers, or answers with an error for a topic whose name begins with `required`, because that topic may exist."""
    try:
        listed: Mapping[str, Any] = admin.list_topics(timeout=limit_s).topics
    except KafkaException as error:
        raise TopologyError(f"the topics of the cluster cannot be read: {error.args[0].str()}") from error
    return _counts(listed, required)


def _counts(listed: Mapping[str, Any], required: str) -> dict[str, int]:
    for name, topic in sorted(listed.items()):
        if required and name.startswith(required) and topic.error is not None and topic.error.code() not in ABSENT:
            raise TopologyError(f"the brokers answer for topic {name}: {topic.error.str()}")
    return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}
