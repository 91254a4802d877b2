"""Where one application's topology comes from while the service runs: a file, or the live group under a Java leader.

A file is compared with what the group shows whenever a member leads it; a contradiction is a reason not to lead.
Missing internal topics are made where the topology describes them.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence

import structlog
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView
from bellwether_kafka.assignors.streams.application import Topology, TopologyError
from bellwether_kafka.coordinator.kafka import OffsetReader
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
    """A topology that is neither learned nor settled, and for which nobody makes topics."""

    mismatch = ""
    witnesses: frozenset[str] = frozenset()

    def __init__(self, topology: Topology | None) -> None:
        self.topology = topology

    async def refresh(self) -> None: ...
    async def observe(self, members: tuple[AssignedMember, ...]) -> None: ...
    def distrust(self) -> None: ...
    def settle(self, topology: Topology) -> None: ...
    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None: ...


class TopologyKeeper:
    """One application's. For one event loop. `given` is the topology of `file`, which is read again when it changes.

    `witnesses` are the member ids that the learned topology was concluded from. `mismatch` is a sentence part on what
    the live group contradicts, "" where it does not.
    """

    def __init__(
        self,
        application_id: str,
        given: Topology | None,
        admin: AdminClient,
        offsets: OffsetReader,
        defaults: TopicDefaults = NO_DEFAULTS,
        learn: Learner = learn_live,
        clock: Callable[[], float] = time.monotonic,
        file: WatchedFile | None = None,
    ) -> None:
        self.mismatch = ""
        self.witnesses: frozenset[str] = frozenset()
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
        self._earlier: Ends | None = None  # of changelogs, when the witnesses were learned from first

    @property
    def topology(self) -> Topology | None:
        return self._given or self._learned

    def distrust(self) -> None:
        """Members could not work by this topology: it counts again once the group of a member that leads agrees."""
        self._unconfirmed, self.mismatch = True, UNCONFIRMED
        self._ask_again()

    def _ask_again(self) -> None:
        self.witnesses, self._tried, self._next_try = frozenset(), frozenset(), float("-inf")

    async def refresh(self) -> None:
        """Reads the file again if it has changed. A doubt, or what the live group contradicted in the old one, goes
        when the group of a member that leads agrees with the new one."""
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
            if renumbered:  # members of the old version, which may run still, fail of tasks of the new one
                self.distrust()

    async def observe(self, members: tuple[AssignedMember, ...]) -> None:
        """Learns from a Stable group that a member leads. What it cannot learn is a log line, and tried again."""
        await self.refresh()
        ids = frozenset(m.member_id for m in members)
        open_still = self._learned is not None and bool(self._learned.undecided)
        if not ids or (ids == self.witnesses and not open_still):
            return
        if ids == self._tried and self._clock() < self._next_try:
            return
        self._tried = ids
        self._next_try = self._clock() + RETRY_S
        earlier = self._earlier if ids == self.witnesses else None
        brokers = self._admin, self._offsets
        try:
            found = await self._learn(self._application_id, members, *brokers, LEARN_LIMIT_S, earlier)
        except TopologyError as error:
            log.info("topology_not_learned", application=self._application_id, reason=str(error))
            return
        learned, before = found.topology, (self._learned, self.mismatch)
        self._learned = learned
        self.witnesses = ids
        self._earlier = found.ends if earlier is None else earlier
        if self._given is None:  # only then is there something to do about what could not be told
            notes = list(found.notes)
            self._unconfirmed, self.mismatch = False, ""
            if (learned, "") == before:  # what is open is looked at again and again
                return
            log.info("topology_learned", application=self._application_id, digest=learned.digest, notes=notes)
            return
        self.mismatch = contradiction(
            self._given, learned, unconfirmed=self._unconfirmed, by_size=found.by_size, stateful=found.stateful
        )
        self._unconfirmed = self._unconfirmed and bool(self.mismatch)
        if (learned, self.mismatch) == before:
            return
        if self.mismatch:
            log.warning("topology_contradicted", application=self._application_id, reason=self.mismatch)
        else:
            left = sorted({*learned.undecided, *found.by_size} - {*self._given.changelogs})
            log.info("topology_confirmed", application=self._application_id, digest=self._given.digest, left_over=left)

    def settle(self, topology: Topology) -> None:
        """A learned topology has been settled by what threads said in a rebalance that Bellwether led."""
        log.info("topology_settled", application=self._application_id, digest=topology.digest)
        self._learned = topology

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        """Creates missing internal topics that are described, and returns those that are new; None: nothing was to do.

        `topology` has the topics that its patterns find, or internal topics would get too few partitions. Raises
        TopicCreationError.
        """
        counts = zip(cluster.topics, cluster.counts.tolist(), strict=True)
        existing = {t: n for t, n in counts if n} | dict.fromkeys(cluster.unreadable, 1)
        plan = plan_internal_topics(topology, existing, self._defaults)
        if plan.reasons:
            log.warning("internal_topics_missing", application=self._application_id, reasons=list(plan.reasons))
        # All or nothing: with one missing the group is not led, and a Java leader makes them its own way.
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
    """What a live group says against a topology, "" for nothing. Changelogs that nobody could place say nothing, unless
    the topology is `unconfirmed`: then one that it lacks may be the very one that its tasks waited for.

    That a source topic serves as a changelog is only concluded from there being no other one, and the changelogs of an
    application that Bellwether leads by an older topology have not been made yet. What was placed `by_size` alone may
    be left over from an older version; it only says something of a subtopology of which members report state
    (`stateful`), and none of whose changelogs by the topology exists.
    """
    if unconfirmed and (unplaced := sorted(set(learned.undecided) - set(given.changelogs))):
        return f"the application has the changelog {unplaced[0]}, the topology file has not"
    for subtopology in learned.subtopologies:
        declared = given.find(subtopology.id)
        if declared is None:
            return f"the application has a subtopology {subtopology.id}, the topology file has not"
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
            return (
                f"subtopology {declared.id} of the application has the changelog {stores[0]}, in the topology file not"
            )
        lost = sorted(
            set(declared.changelogs) - set(declared.sources) - set(subtopology.changelogs) - set(learned.undecided)
        )
        if unconfirmed and lost:
            return (
                f"subtopology {declared.id} of the application has no changelog {lost[0]}, in the topology file it has"
            )
    return ""
