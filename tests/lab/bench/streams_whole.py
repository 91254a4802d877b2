"""The whole decision of a Streams group's leader, from the bytes of a JoinGroup answer to those of SyncGroup: decoding,
placement, racks, standbys, threads, host maps, encoding and every check that the product makes before it sends.

One thread per process, a stateful task per partition, replicas in two of three racks, racks in use (min_traffic). Some
processes join an application that was settled without them.
"""

import gc
import random
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, Decision, RawGroup, Refusal
from bellwether_kafka.assignors.streams import TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Subtopology, Topology
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams import Thread, ends_of, group
from tests.lab.bench.outcome import timed_runs

RACKS = ("az1", "az2", "az3")
SUBTOPOLOGIES = 10
STANDBY_SUM = 900  # of offsets in a standby's store
LEAST_RUNS = 3
MEASURE_S = 5.0
CONFIGS = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic")


def whole_row_figures(processes: int, tasks: int, joining: int, standbys: int) -> tuple[float, str]:
    """(milliseconds of the best run, what was decided)."""
    topology, cluster, ends = application(tasks)
    raw = _group(processes, processes - joining, tasks, standbys, topology)
    configs = replace(CONFIGS, num_standby_replicas=standbys)
    least, median, decision = _measured(raw, cluster, ends, topology, configs)
    sent = sum(len(blob) for _, blob in decision.assignments)
    asked = sum(len(member.metadata) for member in raw.members)
    counts = np.bincount(decision.plan.target.active, minlength=processes)
    assert len(decision.plan.target.active) == tasks, "a task is not placed"
    kept = np.bincount(decision.plan.target.standby_task[~decision.plan.target.warmup], minlength=tasks)
    assert (kept == standbys).all(), "a task has not the standbys that it shall have"
    return least, (
        f"median {median:,.0f}; {asked / 1e6:.1f} MB in, {sent / 1e6:.1f} MB out,"
        f" {counts.min():,} to {counts.max():,} tasks each"
    )


def _measured(
    raw: RawGroup, cluster: ClusterView, ends: EndOffsets, topology: Topology, configs: AssignmentConfigs
) -> tuple[float, float, Decision[TaskPlan]]:
    def work() -> Decision[TaskPlan] | Refusal:
        return decide_streams(raw, cluster, ends, topology, StreamsMemory.empty(), configs, "kafka", 0)

    times: list[float] = []
    gc.collect()
    for took_ms, decision in timed_runs(work, LEAST_RUNS, MEASURE_S):
        assert isinstance(decision, Decision), decision.reason
        times.append(took_ms)
        gc.collect()
    assert isinstance(decision, Decision), decision.reason
    times.sort()
    return times[0], times[len(times) // 2], decision


def application(tasks: int) -> tuple[Topology, ClusterView, EndOffsets]:
    """So many stateful tasks in ten subtopologies, replicas in two of three racks."""
    each = tasks // SUBTOPOLOGIES
    subtopologies = tuple(
        Subtopology(s, (f"orders-{s:04d}",), changelogs=(f"shop-store-{s:04d}-changelog",))
        for s in range(SUBTOPOLOGIES)
    )
    counts = {name: each for s in subtopologies for name in (*s.sources, *s.changelogs)}
    seeded = random.Random(3)
    pairs = [(a, b) for a in RACKS for b in RACKS if a != b]
    cluster = ClusterView.of({name: [seeded.choice(pairs) for _ in range(each)] for name in counts})
    topology = Topology("shop", subtopologies, "file")
    return topology, cluster, ends_of(topology, counts)


def _group(processes: int, settled: int, tasks: int, standbys: int, topology: Topology) -> RawGroup:
    each = tasks // SUBTOPOLOGIES
    members = []
    for p in range(processes):
        active = range(p, tasks, settled) if p < settled else range(0)
        sums = {divmod(t, each): LATEST_OFFSET for t in active}
        for n in range(1, 1 + standbys):
            kept = range((p + n) % settled, tasks, settled) if p < settled else range(0)
            sums |= {divmod(t, each): STANDBY_SUM for t in kept}
        owned = tuple(TopicPartition(f"orders-{t // each:04d}", t % each) for t in active)
        rack = RACKS[p % len(RACKS)]
        generation = 5 if p < settled else -1
        name = f"shop-{p:05d}-StreamThread-1-consumer"
        members.append(Thread(name, p + 1, topology.source_topics, sums, owned, generation, rack))
    return group(*members, generation=6)
