"""Random Streams groups of any mix of versions, as the bytes that a leader is sent: for Java's leader and for
Bellwether's."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from bellwether_kafka.assignors.shared import RawGroup, RawMember
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Subtopology, Topology
from bellwether_kafka.assignors.streams.members import SHUTDOWN_REQUESTED
from bellwether_kafka.assignors.streams.members.processes import future_process
from bellwether_kafka.protocol.messages import LATEST_OFFSET, ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition

APPLICATION = "app"
OWN = "bellwether-1"
NOW_MS = 1_700_000_000_000
GENERATION = 5
HIGHEST = 11
END = 10_000


@dataclass(frozen=True, slots=True)
class LeaderProblem:
    """One rebalance: `members` are (id, subscription) in the order of the wire; `ends` None: they cannot be read."""

    topology: Topology
    counts: dict[str, int]
    ends: dict[str, list[int]] | None
    configs: AssignmentConfigs
    members: tuple[tuple[str, bytes], ...]
    leader: ProcessId

    @property
    def raw(self) -> RawGroup:
        theirs = tuple(RawMember(member, None, blob) for member, blob in self.members)
        return RawGroup(APPLICATION, GENERATION + 1, "stream", (*theirs, RawMember(OWN, None, b"")), frozenset({OWN}))

    @property
    def end_offsets(self) -> EndOffsets:
        if self.ends is None:
            return EndOffsets.failed("no answer")
        return EndOffsets({t: np.array(row, dtype=np.int64) for t, row in self.ends.items()}, NOW_MS)

    def wire(self) -> dict[str, object]:
        """What the referee reads: names that Kafka derives from the application's are without its prefix."""
        configs = self.configs
        return {
            "subtopologies": [_wire(s) for s in self.topology.subtopologies],
            "counts": self.counts,
            "ends": self.ends,
            "configs": {
                "acceptable.recovery.lag": str(configs.acceptable_recovery_lag),
                "max.warmup.replicas": str(configs.max_warmup_replicas),
                "num.standby.replicas": str(configs.num_standby_replicas),
                "probing.rebalance.interval.ms": str(configs.probing_rebalance_interval_ms),
            },
            "leader": str(self.leader),
            "future": str(future_process(APPLICATION)),
            "now_ms": NOW_MS,
            "members": [[member, base64.b64encode(blob).decode()] for member, blob in self.members],
        }


def _wire(subtopology: Subtopology) -> dict[str, object]:
    repartition = set(subtopology.repartition_sources)
    stores = [_short(t).removesuffix("-changelog") for t in subtopology.changelogs if t.endswith("-changelog")]
    own_source = len(stores) < len(subtopology.changelogs)
    return {
        "sources": [t for t in subtopology.sources if t not in repartition],
        "repartition_sources": [_short(t) for t in subtopology.repartition_sources],
        "repartition_sinks": [_short(t) for t in subtopology.repartition_sinks],
        "stores": [f"table-{subtopology.id}", *stores] if own_source else stores,
        "source_changelog": own_source,
    }


def _short(topic: str) -> str:
    return topic.removeprefix(f"{APPLICATION}-")


def random_leader(random: Random, *, future: bool) -> LeaderProblem:
    """A group after some rebalances; with `future` some members are newer than version 11. A few ask to be shut
    down."""
    topology, counts = _application(random)
    readable = random.random() < 0.9
    changelogs = [t for s in topology.subtopologies for t in s.changelogs]
    ends = {t: [random.choice([0, END, END + random.randrange(500)]) for _ in range(counts[t])] for t in changelogs}
    processes = [
        (ProcessId(random.getrandbits(64) - 2**63, random.getrandbits(64) - 2**63), random.randint(1, 3))
        for _ in range(random.randint(1, 5))
    ]
    members = _members(random, topology, counts, processes, future=future, stops=random.random() < 0.05)
    return LeaderProblem(
        topology,
        counts,
        ends if readable else None,
        AssignmentConfigs(
            acceptable_recovery_lag=random.choice([0, 100, END]),
            max_warmup_replicas=random.randint(1, 3),
            num_standby_replicas=random.choice([0, 0, 1, 2]),
        ),
        tuple(members),
        random.choice(processes)[0],
    )


def _application(random: Random) -> tuple[Topology, dict[str, int]]:
    """One to three subtopologies, with and without state; the last may read what the first writes."""
    total = random.randint(1, 3)
    chained = total > 1 and random.random() < 0.4
    between = f"{APPLICATION}-between"
    counts: dict[str, int] = {}
    parts = []
    for number in range(total):
        last = chained and number == total - 1
        size = counts["in-0-0"] if last else random.randint(1, 6)
        sources = (between,) if last else tuple(f"in-{number}-{i}" for i in range(random.choice([1, 1, 2])))
        own_source = not last and random.random() < 0.2
        stores = tuple(f"{APPLICATION}-store-{number}-{i}-changelog" for i in range(random.choice([0, 1, 1, 2])))
        counts |= dict.fromkeys((*sources, *stores), size)
        parts.append(
            Subtopology(
                number,
                sources,
                (between,) if last else (),
                (between,) if chained and number == 0 else (),
                (sources[0], *stores) if own_source else stores,
            )
        )
    return Topology(APPLICATION, tuple(parts), "file"), counts


def _members(
    random: Random,
    topology: Topology,
    counts: dict[str, int],
    processes: Sequence[tuple[ProcessId, int]],
    *,
    future: bool,
    stops: bool,
) -> Iterator[tuple[str, bytes]]:
    threads = [
        (p, f"{chr(97 + p)}-{random.getrandbits(32):08x}") for p, (_, n) in enumerate(processes) for _ in range(n)
    ]
    random.shuffle(threads)
    owned, sums = _history(random, topology, counts, [p for p, _ in threads])
    oldest = random.choice([11, 11, 10, 8, 7, 6, 4, 3, 2, 1])
    coming = random.randrange(len(threads)) if future else -1
    racks = [random.choice([None, "az1", "az2"]) for _ in processes]
    for thread, (process, member) in enumerate(threads):
        if thread == coming or (future and random.random() < 0.3):
            version = random.randint(HIGHEST + 1, HIGHEST + 3)
            latest = random.randint(version, HIGHEST + 4)
            user_data = version.to_bytes(4) + latest.to_bytes(4) + random.randbytes(random.randrange(20))
        else:
            version = random.randint(oldest, HIGHEST)
            user_data = SubscriptionInfo(
                version,
                random.randint(version, HIGHEST) if version > 2 else -1,
                processes[process][0],
                f"host-{process}:{9000 + process}" if version > 1 and process % 2 else None,
                tuple(sums[thread].items()),
                random.randrange(128) if version > 7 else 0,
                SHUTDOWN_REQUESTED if stops and version > 8 else 0,
            ).encode()
        subscription = ConsumerProtocolSubscription(
            version=3,
            topics=topology.source_topics,
            user_data=user_data,
            owned_partitions=tuple(sorted(owned[thread])),
            generation_id=GENERATION,
            rack_id=racks[process],
        )
        yield member, subscription.encode()


def _history(
    random: Random, topology: Topology, counts: dict[str, int], process_of: Sequence[int]
) -> tuple[list[list[TopicPartition]], list[dict[TaskId, int]]]:
    """(owned partitions, offset sums) per thread: who ran a task reports it running, others have copies of any age."""
    owned: list[list[TopicPartition]] = [[] for _ in process_of]
    sums: list[dict[TaskId, int]] = [{} for _ in process_of]
    idle_share = random.random()
    for s in topology.subtopologies:
        for number in range(counts[s.sources[0]]):
            task = TaskId(s.id, number)
            runs = random.randrange(len(process_of)) if random.random() < idle_share else -1
            if runs >= 0:
                owned[runs] += [TopicPartition(topic, number) for topic in s.sources]
            if not s.stateful:
                continue
            if runs >= 0:
                sums[runs][task] = LATEST_OFFSET
            there = {process_of[runs]} if runs >= 0 else set()
            for thread in random.sample(range(len(process_of)), random.randint(0, min(2, len(process_of)))):
                if process_of[thread] in there:
                    continue
                there.add(process_of[thread])
                sums[thread][task] = random.choice([0, END - 50, END, END * 2, random.randrange(END)])
    return owned, sums
