"""Finds the owners of changelogs that a learned topology left open, while Bellwether leads.

A Java leader's assignment does not show them, and threads that run all their tasks report no offsets (-2). A thread
that has lost its tasks does report offsets. So the rebalance in which Bellwether takes over an application may show
what observing it could not.

If it does not, Bellwether tries every placement that contradicts no member (`Settled.ways`). If all of them give the
same plan, that plan is right in any case. This holds for an application of one process, which gets all tasks whatever
their lags, and for several processes if changelogs cannot be distinguished because they are equally long. Otherwise a
Java member leads until threads have reported enough: its warm-ups and standbys report offsets. Pure.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, LongArray, RawGroup
from bellwether_kafka.assignors.streams.application import GUESSED, Topology, TopologyError
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.coordinator.topology.changelog_search import ChangelogSearch
from bellwether_kafka.coordinator.topology.learn import assembled
from bellwether_kafka.coordinator.topology.offset_fit import OffsetSum
from bellwether_kafka.protocol.messages import LATEST_OFFSET, ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError

WAYS_MAX = 16
Tasks = set[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of `settle`. `topology` has a subtopology for every changelog. `open` names the changelogs that may
    belong to another one. `ways` are all topologies that contradict no member; () if nothing is open or they cannot be
    enumerated."""

    topology: Topology
    open: tuple[str, ...] = ()
    ways: tuple[Topology, ...] = ()


def settle(
    topology: Topology, raw: RawGroup, memory: StreamsMemory, cluster: ClusterView, ends: Mapping[str, LongArray]
) -> Settled:
    """Returns the learned topology, with undecided changelogs placed by what members report in this rebalance."""
    counts = {t: n for t, n in zip(cluster.topics, cluster.counts.tolist(), strict=True) if n}
    ran = _ran(topology, memory)
    reported: dict[ProcessId, Tasks] = defaultdict(set)
    running: Tasks = set()
    sums: list[OffsetSum] = []
    for info, owned in _reported(topology, raw):
        ran[info.process_id] |= owned
        for task, value in info.task_offset_sums:
            reported[info.process_id].add(task[:2])
            sums.append((task, value))
            if value == LATEST_OFFSET:
                running.add(task[:2])
    stateful = {s for process, tasks in reported.items() for s, p in tasks if (s, p) in ran[process] | running}
    silent = {s for process, tasks in ran.items() if reported[process] for s, _ in tasks - reported[process]}
    sources = {s.id: list(s.sources) for s in topology.subtopologies}
    sizes = {number: max((counts.get(t, 0) for t in topics), default=0) for number, topics in sources.items()}
    search = ChangelogSearch(topology.application_id, sources, sizes, stateful, silent - stateful)
    fixed = {t: s.id for s in topology.subtopologies for t in s.changelogs if t not in s.sources}
    changelogs = {t: counts[t] for t in (*fixed, *topology.undecided) if t in counts}
    try:
        placed, _ = search.solve(changelogs, sums, ends, fixed)
        resolved = assembled(topology.application_id, sources, placed, search.reused(placed, counts), ()).topology
    except TopologyError:  # a stateful subtopology without a changelog: nothing is certain
        return Settled(_guessed(topology, search, counts), topology.undecided)
    if not resolved.undecided:
        return Settled(resolved)
    ways = _ways(search, search.possible(changelogs, sums, ends, fixed), counts)
    return Settled(_guessed(resolved, search, counts), resolved.undecided, ways)


def _ways(
    search: ChangelogSearch, possible: Sequence[Mapping[str, int]], counts: Mapping[str, int]
) -> tuple[Topology, ...]:
    """Returns the topologies whose stateful subtopologies all have a changelog; () if more than `WAYS_MAX`."""
    ways = []
    for placed in possible:
        try:
            reused = search.reused(placed, counts)
        except TopologyError:
            continue
        whole = assembled(search.application_id, search.sources, placed, reused, ()).topology
        ways.append(replace(whole, source=GUESSED))
    return tuple(ways) if len(ways) <= WAYS_MAX else ()


def _guessed(topology: Topology, search: ChangelogSearch, counts: Mapping[str, int]) -> Topology:
    """Places undecided changelogs where they fit, so that stateful subtopologies get one first."""
    holds: dict[int, list[str]] = {s.id: list(s.changelogs) for s in topology.subtopologies}
    for topic in topology.undecided:
        fitting = [n for n in search.same_size(counts.get(topic, 0)) if n not in search.stateless] or sorted(holds)
        holds[min(fitting, key=lambda n: (n not in search.stateful, len(holds[n]), n))].append(topic)
    parts = tuple(replace(s, changelogs=tuple(sorted(holds[s.id]))) for s in topology.subtopologies)
    return replace(topology, subtopologies=parts, undecided=(), source=GUESSED)


def _ran(topology: Topology, memory: StreamsMemory) -> defaultdict[ProcessId, Tasks]:
    """Returns the tasks that the last known plan gave to each process."""
    tasks_of: defaultdict[ProcessId, Tasks] = defaultdict(set)
    plan, owners = memory.plan, topology.subtopology_of
    for topic, first, last in zip(plan.cluster.topics, plan.cluster.first[:-1], plan.cluster.first[1:], strict=True):
        subtopology = owners.get(topic)
        for partition, owner in enumerate(plan.owner[first:last].tolist() if subtopology is not None else ()):
            record = memory.threads.get(plan.members.keys[owner]) if owner != NOBODY else None
            if record is not None and subtopology is not None:
                tasks_of[record.process_id].add((subtopology, partition))
    return tasks_of


def _reported(topology: Topology, raw: RawGroup) -> list[tuple[SubscriptionInfo, Tasks]]:
    """Returns what each thread reports in this rebalance, with the tasks of the partitions it owns."""
    reports, owners = [], topology.subtopology_of
    for member in raw.others:
        try:
            subscription = ConsumerProtocolSubscription.decode(member.metadata)
            info = SubscriptionInfo.decode(subscription.user_data or b"")
        except RemoteProtocolError:
            continue
        if not info.future:
            owned = {(owners[tp.topic], tp.partition) for tp in subscription.owned_partitions if tp.topic in owners}
            reports.append((info, owned))
    return reports
