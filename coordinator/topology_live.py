"""Topologies against a live cluster: learning one from a running application, creating the topics that one lacks."""

import asyncio
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from assignors.model import ClusterView
from assignors.streams.topology import Topology, TopologyError
from assignors.views import DescribedMember
from coordinator.internal_topics import create_topics, plan_internal_topics
from coordinator.offset_reader import OffsetReader, OffsetsError
from coordinator.topology_learn import CHANGELOG, Learned, learn


async def learn_live(
    application_id: str,
    described: Sequence[DescribedMember],
    admin: AdminClient,
    offsets: OffsetReader,
    limit_s: float,
) -> Learned:
    """The topology of a Stable group from what DescribeGroups returned of it. Raises TopologyError."""
    counts = await asyncio.to_thread(topic_counts, admin, limit_s)
    changelogs = {t: n for t, n in counts.items() if t.startswith(f"{application_id}-") and t.endswith(CHANGELOG)}
    try:
        ends = await offsets.ends(changelogs, limit_s)
    except OffsetsError:
        ends = None  # only needed where names and sizes do not tell; then the topology stays undecided
    return await asyncio.to_thread(learn, application_id, described, counts, ends)


def topic_counts(admin: AdminClient, limit_s: float) -> dict[str, int]:
    """The partition counts of all topics that we may see. Blocks. Raises TopologyError where no broker answers."""
    try:
        listed: Mapping[str, object] = admin.list_topics(timeout=limit_s).topics
    except KafkaException as error:
        raise TopologyError(f"the topics of the cluster cannot be read: {error.args[0].str()}") from error
    return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}  # type: ignore[attr-defined]  # the client has no types


async def complete_topics(
    admin: AdminClient, topology: Topology, cluster: ClusterView, limit_s: float
) -> frozenset[str]:
    """Creates the internal topics that are missing and described; returns those that are new.

    Topics that cannot be read are not taken for missing. Nothing is created for a topology with pattern sources, whose
    topics are only known from members. Raises TopicCreationError.
    """
    existing = {t: n for t, n in zip(cluster.topics, cluster.counts.tolist(), strict=True) if n}
    wanted = {*topology.repartition_topics, *topology.changelogs}
    if topology.patterns or wanted <= existing.keys() or cluster.unreadable & {*topology.topics}:
        return frozenset()
    plan = plan_internal_topics(topology, existing)
    return await asyncio.to_thread(create_topics, admin, plan.topics, limit_s)
