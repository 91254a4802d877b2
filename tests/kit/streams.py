"""Small Streams applications for tests: members that live through rebalances, a placement that anybody can
predict, and topology files from their text."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, Decision, RawGroup, RawMember, Refusal
from bellwether_kafka.assignors.streams import STOCK, Assignors, HeldTasks, TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    EndOffsets,
    StreamsPlan,
    StreamsView,
    Subtopology,
    ThreadPlan,
    Topology,
)
from bellwether_kafka.assignors.streams.members import StreamsMemory, assignment_info
from bellwether_kafka.coordinator.topology import load_topology
from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.kit.consumers import cluster_of

OWN = "bellwether-1"
NOW_MS = 1_700_000_000_000

# Subtopology 0 is stateless and feeds 1, which is stateful.
SHOP = Topology(
    "shop",
    (
        Subtopology(0, ("orders",), repartition_sinks=("shop-by-user-repartition",)),
        Subtopology(
            1,
            ("shop-by-user-repartition",),
            repartition_sources=("shop-by-user-repartition",),
            changelogs=("shop-totals-changelog",),
        ),
    ),
    "file",
)
SHOP_COUNTS = {"orders": 4, "shop-by-user-repartition": 4, "shop-totals-changelog": 4}


def round_robin(view: StreamsView, configs: AssignmentConfigs, policy: str = "") -> StreamsPlan:
    """Task t on process t mod n, its standbys on the next ones."""
    del policy
    size = view.size
    active = np.arange(view.tasks.size, dtype=np.int32) % size
    pairs = [
        (t, int((active[t] + 1 + i) % size))
        for t in range(view.tasks.size)
        if view.tasks.stateful[t]
        for i in range(min(configs.num_standby_replicas, size - 1))
    ]
    return placed(active.tolist(), sorted(pairs))


def placed(active: Sequence[int], standbys: Sequence[tuple[int, int]] = (), *, probing: bool = False) -> StreamsPlan:
    task = np.array([t for t, _ in standbys], dtype=np.int32)
    process = np.array([p for _, p in standbys], dtype=np.int32)
    return StreamsPlan(np.array(active, dtype=np.int32), task, process, np.zeros(len(task), dtype=np.bool_), probing)


def by_turns(view: StreamsView, plan: StreamsPlan) -> ThreadPlan:
    """The tasks of a process go to its threads in turn."""
    first = np.cumsum([0, *view.capacity.tolist()])
    turn = [0] * view.size

    def thread(process: int) -> int:
        turn[process] += 1
        return int(first[process]) + (turn[process] - 1) % int(view.capacity[process])

    active = [thread(p) for p in plan.active.tolist()]
    standby = [thread(p) for p in plan.standby_process.tolist()]
    return ThreadPlan(np.array(active, dtype=np.int32), np.array(standby, dtype=np.int32))


SIMPLE = Assignors(round_robin, round_robin, by_turns)


def always(plan: StreamsPlan) -> Assignors:
    """Assignors that decide for this plan, whatever they see."""
    return Assignors(lambda _view, _configs, _policy: plan, round_robin, by_turns)


@dataclass(frozen=True)
class Thread:
    """A StreamThread: what it says follows from what it was sent."""

    member_id: str
    process: int = 1
    topics: tuple[str, ...] = SHOP.source_topics
    sums: Mapping[tuple[int, int], int] = field(default_factory=dict)
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    endpoint: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    version: int = 11
    latest: int = 11
    error_code: int = 0
    unique: int = 0
    instance_id: str | None = None

    @property
    def info(self) -> SubscriptionInfo:
        sums = tuple((TaskId(*task), value) for task, value in self.sums.items())
        return SubscriptionInfo(
            self.version,
            self.latest if self.version > 2 else -1,
            ProcessId(0, self.process),
            self.endpoint,
            sums,
            self.unique,
            self.error_code,
            self.tags,
        )

    @property
    def raw(self) -> RawMember:
        return self.with_user_data(self.info.encode())

    def with_user_data(self, data: bytes | None) -> RawMember:
        metadata = ConsumerProtocolSubscription(
            version=3,
            topics=self.topics,
            user_data=data,
            owned_partitions=tuple(sorted(self.owned)),
            generation_id=self.generation,
            rack_id=self.rack,
        ).encode()
        return RawMember(self.member_id, self.instance_id, metadata)

    def after(self, decision: Decision[TaskPlan], stateful: Sequence[int] = (1,)) -> "Thread":
        """The thread when it joins again: its tasks run, its standbys have caught up."""
        partitions, info = sent(decision, self.member_id)
        sums = {(t.subtopology, t.partition): LATEST_OFFSET for t in info.active_tasks if t.subtopology in stateful}
        kept = {(t.subtopology, t.partition): 1000 for t, _ in info.standby_tasks}
        return replace(
            self,
            owned=partitions,
            sums=kept | sums,
            generation=decision.raw.generation,
            unique=(self.unique + 1) % 128,
        )


def group(*members: Thread | RawMember, generation: int = 1, own: bool = True) -> RawGroup:
    raw = [m.raw if isinstance(m, Thread) else m for m in members]
    if own:
        raw.append(RawMember(OWN, None, b""))
    return RawGroup("shop", generation, "stream", tuple(raw), frozenset({OWN}))


def ends_of(topology: Topology, counts: Mapping[str, int], end: int = 1000) -> EndOffsets:
    ends = {t: np.full(counts[t], end, dtype=np.int64) for t in topology.changelogs if t in counts}
    return EndOffsets(ends, NOW_MS)


def decided(
    raw: RawGroup,
    *,
    topology: Topology = SHOP,
    counts: Mapping[str, int] = SHOP_COUNTS,
    cluster: ClusterView | None = None,
    ends: EndOffsets | None = None,
    memory: StreamsMemory | None = None,
    configs: AssignmentConfigs | None = None,
    assignors: Assignors = SIMPLE,
    now_ms: int = NOW_MS,
    policy: str = "kafka",
) -> Decision[TaskPlan] | Refusal:
    return decide_streams(
        raw,
        cluster or cluster_of(counts),
        ends or ends_of(topology, counts),
        topology,
        memory or StreamsMemory.empty(),
        configs or AssignmentConfigs(),
        policy,
        now_ms,
        assignors=assignors,
    )


def led(raw: RawGroup, **changes: object) -> Decision[TaskPlan]:
    decision = decided(raw, **changes)  # type: ignore[arg-type]  # passed on as they are
    assert isinstance(decision, Decision), decision.reason
    assert decision.plan.findings(decision.raw, decision.assignments) == ()
    return decision


def refused(raw: RawGroup, **changes: object) -> Refusal:
    decision = decided(raw, **changes)  # type: ignore[arg-type]  # passed on as they are
    assert isinstance(decision, Refusal)
    return decision


def sent(decision: Decision[TaskPlan], member_id: str) -> tuple[tuple[TopicPartition, ...], AssignmentInfo]:
    """What this member gets, decoded by the dataclasses."""
    assignment = ConsumerProtocolAssignment.decode(dict(decision.assignments)[member_id])
    assert assignment.user_data is not None
    return assignment.partitions, AssignmentInfo.decode(assignment.user_data)


def tasks_text(decision: Decision[TaskPlan], member_id: str) -> str:
    """The distinct active tasks as "0_0 1_2", then "| standbys" where there are any."""
    info = sent(decision, member_id)[1]
    active = " ".join(map(str, sorted(set(info.active_tasks))))
    standby = " ".join(str(t) for t, _ in info.standby_tasks)
    return f"{active} | {standby}" if standby else active


A, B = TWO = Thread("a", 1), Thread("b", 2)
CHANGELOG, REPARTITION = "shop-totals-changelog", "shop-by-user-repartition"


# Tasks 0-3 have no state, 4-7 have 1,000 records each. Process 1 runs all of them.
ALL_ON_1 = placed([0] * 8)
CONFIGS = AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=2)
STATE = {(1, partition): -2 for partition in range(4)}


def one_holds_all(policy: str = "streams-ha", **standbys: int) -> Decision[TaskPlan]:
    """Process 2 has standbys of task 1_n at `t<n>` records."""
    sums = {(1, int(name[1:])): position for name, position in standbys.items()}
    threads = Thread("a", 1, sums=STATE), Thread("b", 2, sums=sums)
    return led(group(*threads), assignors=always(ALL_ON_1), configs=CONFIGS, policy=policy)


TWELVE_EACH = {"orders": 12, "shop-by-user-repartition": 12, "shop-totals-changelog": 12}
END_OF_STORES = 50_000  # records in each changelog partition: far more than Kafka lets a copy lag behind


def settled_application(*racks: str, standbys: int = 0) -> tuple[Decision[TaskPlan], Mapping[str, HeldTasks]]:
    """Two threads in each of as many processes as racks are named, settled under Kafka's assignor."""
    configs = AssignmentConfigs(num_standby_replicas=standbys)
    threads = [Thread(f"{rack}-p{p}-t{t}", p, rack=rack) for p, rack in enumerate(racks, 1) for t in (1, 2)]
    decision, memory = None, None
    for generation in (1, 2, 3):
        raw = group(*threads, generation=generation)
        more = {
            "counts": TWELVE_EACH,
            "ends": ends_of(SHOP, TWELVE_EACH, END_OF_STORES),
            "configs": configs,
            "assignors": STOCK,
        }
        decision = led(raw, memory=memory, **more)
        memory = decision.plan.memory
        threads = [thread.after(decision) for thread in threads]
    assert decision is not None
    assert not decision.followup
    return decision, holding(decision)


def holding(decision: Decision[TaskPlan]) -> dict[str, HeldTasks]:
    copies = {}
    for member, blob in decision.assignments:
        info = assignment_info(blob)
        if info is not None:
            copies[member] = HeldTasks(tuple(dict.fromkeys(info.active_tasks)), tuple(t for t, _ in info.standby_tasks))
    return copies


def read_topology(text: str) -> Topology:
    """Returns the topology of a file with this text. Raises TopologyError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return load_topology(file)


FIRST, SECOND = SHOP.subtopologies


TOTALS, SUMS = "shop-totals-changelog", "shop-sums-changelog"


def with_parts(*subtopologies: Subtopology, patterns: tuple[tuple[int, str], ...] = ()) -> Topology:
    return Topology("shop", subtopologies, "file", patterns=patterns)


MORE_STORES = with_parts(FIRST, replace(SECOND, changelogs=(TOTALS, SUMS)))


RENAMED = with_parts(FIRST, replace(SECOND, changelogs=(SUMS,)))


ANOTHER_TOPIC = with_parts(replace(FIRST, sources=(*FIRST.sources, "returns")), SECOND)


SWAPPED = with_parts(replace(SECOND, id=0), replace(FIRST, id=1))


EXPORTED = """# Written by TopologyExporter.
ApplicationId: shop
StreamsVersion: "4.3.0"
InMemoryStores: [totals]
Digest: "DIGEST"
Subtopologies:
  - SubtopologyId: "0"
    SourceTopics: [orders]
  - SubtopologyId: "1"
    SourceTopics: [users]
"""


def exported() -> str:
    kept = [line for line in EXPORTED.splitlines() if not line.startswith(("#", "Digest:"))]
    return EXPORTED.replace("DIGEST", hashlib.sha256("\n".join(kept).encode()).hexdigest()[:32])


SHOP_TEXT = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
      --> KSTREAM-KEY-SELECT-0000000001
    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
      --> by-user-repartition-filter
      <-- KSTREAM-SOURCE-0000000000
    Processor: by-user-repartition-filter (stores: [])
      --> by-user-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000001
    Sink: by-user-repartition-sink (topic: by-user-repartition)
      <-- by-user-repartition-filter

  Sub-topology: 1
    Source: by-user-repartition-source (topics: [by-user-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [totals])
      --> KTABLE-TOSTREAM-0000000007
      <-- by-user-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: results)
      <-- KTABLE-TOSTREAM-0000000007

"""
