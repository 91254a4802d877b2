"""Provides one application's topology while the service runs: from a file, or from the live group under a Java leader.

Whenever a member leads the group, a file is compared with what the group shows; if they contradict, Bellwether does not
lead. Missing internal topics are created if the topology describes them.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence

import structlog
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView
from bellwether_kafka.assignors.streams.application import Topology, TopologyError
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import OffsetReader
from bellwether_kafka.coordinator.topology.internal_topics import (
    NO_DEFAULTS,
    CreationPlan,
    TopicDefaults,
    create_topics,
    plan_internal_topics,
    read_replicas,
    with_replicas,
)
from bellwether_kafka.coordinator.topology.learn import Learned
from bellwether_kafka.coordinator.topology.live import learn_live
from bellwether_kafka.coordinator.topology.offset_fit import Ends
from bellwether_kafka.coordinator.topology.upgrade import Mixture, upgrade
from bellwether_kafka.coordinator.topology.watched_file import WatchedFile

LEARN_LIMIT_S = 5.0
RETRY_S = 30.0
FILE_LIMIT_S = 1.0
UNCONFIRMED = "no group of a member that leads has shown yet that the application has this topology"

log = structlog.get_logger(__name__)

Learner = Callable[
    [str, Sequence[AssignedMember], AdminClient, OffsetReader, float, Ends | None], Coroutine[object, object, Learned]
]


class GivenTopology:
    """A fixed topology: it is never learned or settled, and no topics are created for it."""

    mismatch = ""
    learned_from_members: frozenset[str] = frozenset()

    def __init__(self, topology: Topology | None) -> None:
        self.topology = topology

    async def refresh(self) -> None: ...
    async def observe(self, members: tuple[AssignedMember, ...]) -> None: ...
    def distrust(self) -> None: ...
    def settle(self, topology: Topology) -> None: ...
    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None: ...


class TopologyKeeper:
    """Keeps the topology of one application. For one event loop. `given` is the topology of `file`, which is read again
    when it changes.

    `learned_from_members` are the ids of the members from whose assignment it was learned. `mismatch` is a phrase on
    what the live group contradicts, "" if nothing.
    """

    def __init__(
        self,
        application_id: str,
        given: Topology | None,
        admin: AdminClient,
        offsets: OffsetReader,
        defaults: TopicDefaults = NO_DEFAULTS,
        learn: Learner = learn_live,
        clock: Callable[[], float] = clocks.monotonic,
        file: WatchedFile | None = None,
    ) -> None:
        self.mismatch = ""
        self.learned_from_members: frozenset[str] = frozenset()
        self._application_id = application_id
        self._given = given
        self._learned: Topology | None = None
        self._admin = admin
        self._offsets = offsets
        self._defaults = defaults
        self._learn = learn
        self._clock = clock
        self._file = file
        self._next_try = float("-inf")
        self._tried: frozenset[str] = frozenset()
        self._unconfirmed = False
        self._earlier: Ends | None = None  # end offsets of changelogs when the witnesses were first learned from

    @property
    def topology(self) -> Topology | None:
        return self._given or self._learned

    def distrust(self) -> None:
        """Call it when members could not work with this topology. A group that a member leads must confirm it again."""
        self._unconfirmed, self.mismatch = True, UNCONFIRMED
        self._ask_again()

    def _ask_again(self) -> None:
        self.learned_from_members, self._tried, self._next_try = frozenset(), frozenset(), float("-inf")

    async def refresh(self) -> None:
        """Reads the file again if it has changed. A distrust or contradiction of the old file stays until a group that
        a member leads confirms the new one."""
        if self._file is None:
            return
        try:
            async with asyncio.timeout(FILE_LIMIT_S):
                newer = await asyncio.to_thread(self._file.newer)
        except TimeoutError:
            return
        if newer is not None:
            log.info("topology_file_read", application=self._application_id, digest=newer.digest)
            renumbered = self._given is not None and upgrade(self._given, newer).mixture is Mixture.NUMBERS
            self._given = newer
            self._ask_again()
            if renumbered:  # members of the old version may still run, and fail with tasks of the new one
                self.distrust()

    async def observe(self, members: tuple[AssignedMember, ...]) -> None:
        """Learns from a Stable group that a member leads. If that fails, logs the reason and retries after
        `RETRY_S`."""
        await self.refresh()
        ids = frozenset(m.member_id for m in members)
        open_still = self._unconfirmed or (self._learned is not None and bool(self._learned.undecided))
        if not ids or (ids == self.learned_from_members and not open_still):
            return
        if ids == self._tried and self._clock() < self._next_try:
            return
        self._tried = ids
        self._next_try = self._clock() + RETRY_S
        earlier = self._earlier if ids == self.learned_from_members else None
        brokers = self._admin, self._offsets
        try:
            observed = await self._learn(self._application_id, members, *brokers, LEARN_LIMIT_S, earlier)
        except TopologyError as error:
            log.info("topology_not_learned", application=self._application_id, reason=str(error))
            return
        learned, before = observed.topology, (self._learned, self.mismatch)
        self._learned = learned
        self.learned_from_members = ids
        self._earlier = observed.ends if earlier is None else earlier
        if self._given is None:  # only then do the notes require action
            notes = list(observed.notes)
            self._unconfirmed, self.mismatch = False, ""
            if (learned, "") == before:  # open changelogs are checked repeatedly, with the same result
                return
            log.info("topology_learned", application=self._application_id, digest=learned.digest, notes=notes)
            return
        self.mismatch = contradiction(
            self._given, learned, unconfirmed=self._unconfirmed, by_size=observed.by_size, stateful=observed.stateful
        )
        if self._unconfirmed and observed.not_run and not self.mismatch:
            member_id, task = observed.not_run[0]
            self.mismatch = f"{UNCONFIRMED}: member {member_id} had task {task} when it joined, and did not run it"
        self._unconfirmed = self._unconfirmed and bool(self.mismatch)
        if (learned, self.mismatch) == before:
            return
        self.log_comparison(sorted({*learned.undecided, *observed.by_size} - {*self._given.changelogs}))

    def log_comparison(self, left_over: Sequence[str]) -> None:
        """Says whether the group has the given topology. `left_over`: changelogs that it does not account for."""
        digest = self._given.digest if self._given is not None else ""
        if not self.mismatch:
            log.info("topology_confirmed", application=self._application_id, digest=digest, left_over=left_over)
        elif self.mismatch.startswith(UNCONFIRMED):
            log.info("topology_not_confirmed", application=self._application_id, digest=digest, reason=self.mismatch)
        else:
            log.warning("topology_contradicted", application=self._application_id, digest=digest, reason=self.mismatch)

    def settle(self, topology: Topology) -> None:
        """Replaces the learned topology by one that was settled in a rebalance that Bellwether led."""
        log.info("topology_settled", application=self._application_id, digest=topology.digest)
        self._learned = topology

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        """Creates missing internal topics and returns the new ones; None if nothing is missing or not all missing ones
        are described.

        `topology` must include the topics that its patterns match, or internal topics would get too few partitions.
        Raises TopicCreationError.
        """
        counts = zip(cluster.topics, cluster.counts.tolist(), strict=True)
        existing = {t: n for t, n in counts if n}
        plan = plan_internal_topics(topology, existing, self._defaults, cluster.unreadable)
        if plan.reasons:
            log.warning("internal_topics_missing", application=self._application_id, reasons=list(plan.reasons))
        # All or none: if one is missing, Bellwether does not lead, and a Java leader creates them itself.
        if plan.reasons or not plan.topics:
            return None
        created = await asyncio.to_thread(self._create, plan, topology.topics, limit_s)
        log.info("internal_topics_created", application=self._application_id, topics=sorted(created))
        return created

    def _create(self, plan: CreationPlan, topics: Sequence[str], limit_s: float) -> frozenset[str]:
        whole = with_replicas(plan.topics, read_replicas(self._admin, topics, limit_s))
        return create_topics(self._admin, whole, limit_s)


def contradiction(
    given: Topology,
    learned: Topology,
    *,
    unconfirmed: bool = False,
    by_size: Collection[str] = (),
    stateful: Collection[int] = (),
) -> str:
    """Returns what a live group contradicts in a topology, "" if nothing. Changelogs that could not be placed are
    ignored, unless the topology is `unconfirmed`: then one that it lacks may be the one that its tasks waited for.

    A source topic that seems to serve as a changelog does not count: that is only concluded from the lack of another
    one. Nor do missing changelogs: if Bellwether leads by an older topology, they do not exist yet. A changelog that
    was placed `by_size` alone may be left over from an older version; it counts only if members report state of its
    subtopology (`stateful`) and none of the changelogs that the topology gives it exists.
    """
    if unconfirmed and (unplaced := sorted(set(learned.undecided) - set(given.changelogs))):
        return f"the application has the changelog {unplaced[0]}, which the topology file lacks"
    for subtopology in learned.subtopologies:
        declared = given.find(subtopology.id)
        if declared is None:
            return f"the application has a subtopology {subtopology.id}, which the topology file lacks"
        extra = set(subtopology.sources) - set(declared.sources)
        foreign = sorted(t for t in extra if declared.id not in given.fits_pattern(t))
        if foreign:
            return f"subtopology {declared.id} of the application reads {foreign[0]}, in the topology file it does not"
        served = set(subtopology.sources) if declared.changelogs else set()
        there = {*subtopology.changelogs, *learned.undecided, *subtopology.sources}
        explained = declared.id not in stateful or bool({*declared.changelogs} & there)
        unsure = set(by_size) if explained and not unconfirmed else set()
        stores = sorted(set(subtopology.changelogs) - set(declared.changelogs) - served - unsure)
        if stores:
            missing = f"has the changelog {stores[0]}, which the topology file lacks"
            return f"subtopology {declared.id} of the application {missing}"
        lost = sorted(
            set(declared.changelogs) - set(declared.sources) - set(subtopology.changelogs) - set(learned.undecided)
        )
        if unconfirmed and lost:
            return f"subtopology {declared.id} of the application has no changelog {lost[0]}, the topology file has it"
    return ""
