"""Where one application's topology comes from while the service runs: a file, or the live group under a Java leader.

A file is compared with what the group shows whenever somebody else leads it; a contradiction is a reason not to lead.
Missing internal topics are made where the topology describes them.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import structlog
from confluent_kafka.admin import AdminClient

from assignors.model import ClusterView
from assignors.streams.topology import Topology, TopologyError
from assignors.views import DescribedMember, RawGroup, RawMember, topics_wanted
from coordinator.internal_topics import TopicPlan, create_topics, plan_internal_topics
from coordinator.offset_reader import OffsetReader, OffsetsError
from coordinator.topology_learn import CHANGELOG, learn

LEARN_LIMIT_S = 5.0
METADATA_AGE_MS_MAX = 1_000

log = structlog.get_logger(__name__)


class Topics(Protocol):
    """What `cluster.ClusterReader` is here."""

    @property
    def admin(self) -> AdminClient: ...

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView: ...
    async def names(self, prefix: str) -> tuple[str, ...]: ...


class TopologyKeeper:
    """One application's. For one event loop. `given` is the file's topology.

    `witnesses` are the member ids that the learned topology was concluded from. `mismatch` is a sentence part on what
    the live group contradicts, "" where it does not.
    """

    def __init__(self, application_id: str, given: Topology | None, topics: Topics, offsets: OffsetReader) -> None:
        self.mismatch = ""
        self.witnesses: frozenset[str] = frozenset()
        self._application_id = application_id
        self._given = given
        self._learned: Topology | None = None
        self._topics = topics
        self._offsets = offsets

    @property
    def topology(self) -> Topology | None:
        return self._given or self._learned

    async def observe(self, members: tuple[DescribedMember, ...]) -> None:
        """Learns from a Stable group that somebody else leads. What it cannot learn is a log line; raises what the
        cluster reader raises."""
        if not members or {m.member_id for m in members} == self.witnesses:
            return
        try:
            learned = await self._learn(members)
        except TopologyError as error:
            log.info("topology_not_learned", application=self._application_id, reason=str(error))
            return
        self.witnesses = frozenset(m.member_id for m in members)
        self._learned = learned
        self.mismatch = contradiction(self._given, learned) if self._given is not None else ""
        if self.mismatch:
            log.warning("topology_contradicted", application=self._application_id, reason=self.mismatch)

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        """Creates missing internal topics that are described, and returns those that are new; None: nothing was to do.

        Raises TopicCreationError.
        """
        existing = {t: n for t, n in _counts(cluster).items() if n} | dict.fromkeys(cluster.unreadable, 1)
        plan = plan_internal_topics(topology, existing)
        if plan.reasons:
            log.info("internal_topics_missing", application=self._application_id, reasons=list(plan.reasons))
        # All or nothing: with one missing the group is not led, and a Java leader makes them its own way.
        if plan.reasons or not plan.topics:
            return None
        return await self._create(plan.topics, limit_s)

    async def _create(self, plans: tuple[TopicPlan, ...], limit_s: float) -> frozenset[str]:
        created = await asyncio.to_thread(create_topics, self._topics.admin, plans, limit_s)
        log.info("internal_topics_created", application=self._application_id, topics=sorted(created))
        return created

    async def _learn(self, members: tuple[DescribedMember, ...]) -> Topology:
        subscribed = topics_wanted(
            RawGroup("", -1, "stream", tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in members))
        )
        stores = [t for t in await self._topics.names(f"{self._application_id}-") if t.endswith(CHANGELOG)]
        cluster = await self._topics.snapshot(tuple(sorted({*subscribed, *stores})), METADATA_AGE_MS_MAX)
        counts = _counts(cluster)
        try:
            ends = await self._offsets.ends({t: counts[t] for t in stores if t in counts}, LEARN_LIMIT_S)
        except OffsetsError:
            ends = None
        found = await asyncio.to_thread(learn, self._application_id, members, counts, ends)
        log.info(
            "topology_learned",
            application=self._application_id,
            digest=found.topology.digest,
            subtopologies=len(found.topology.subtopologies),
            notes=list(found.notes),
        )
        return found.topology


def contradiction(given: Topology, learned: Topology) -> str:
    """What a live group says against a topology, "" for nothing. Changelogs that nobody could place say nothing."""
    for subtopology in learned.subtopologies:
        told = given.find(subtopology.id)
        if told is None:
            return f"the application has a subtopology {subtopology.id}, the topology file has not"
        extra = set(subtopology.sources) - set(told.sources)
        foreign = sorted(t for t in extra if told.id not in given.fits_pattern(t))
        if foreign:
            return f"subtopology {told.id} of the application reads {foreign[0]}, in the topology file it does not"
        stores = sorted(set(subtopology.changelogs) - set(told.changelogs))
        if stores:
            return f"subtopology {told.id} of the application has the changelog {stores[0]}, in the topology file not"
    return ""


def _counts(cluster: ClusterView) -> Mapping[str, int]:
    return dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
