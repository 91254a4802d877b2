"""`python -m tests.lab.bench.records`: how large the broker's record of a group gets, and what can be done without.

A broker keeps all subscriptions and all assignments of a group in one record and refuses one above message.max.bytes
(docs/internals/broker-behaviour.md#limits). Sizes are those that the guard projects; nothing here is timed. What the
same bytes take compressed is what brokers write that have `offsets.topic.compression.codec` set.
"""

import argparse
import sys
import zlib

from bellwether_kafka.assignors.consumer import decide, policy
from bellwether_kafka.assignors.shared import Decision, Memory, RawGroup, RawMember
from bellwether_kafka.assignors.streams import decide_streams, without_host_maps
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.coordinator.planning import MESSAGE_BYTES_MAX, record_bytes
from bellwether_kafka.coordinator.planning.inspection import RECORD_SHARE, Assignments, oversized
from tests.kit.streams import Thread, group
from tests.lab.bench.own import run_own
from tests.lab.bench.report import Figures, figure, print_and_save
from tests.lab.bench.scenario import Shape, disturbed, fresh
from tests.lab.bench.streams_whole import application

CONSUMERS = ((100, 10, 100), (1_000, 100, 100), (2_000, 20, 1_000), (2_000, 100, 1_000), (2_000, 500, 2_000))
APPLICATIONS = ((20, 200), (50, 1_000), (100, 1_000), (200, 2_000))


def consumers(members: int, topics: int, each: int) -> Figures:
    """A cooperative group at rest, after a member has joined: every member owns and is given the same."""
    shape = Shape("cooperative-sticky", members, topics, each)
    start = fresh(shape, shape.settled_members)
    plan = run_own(start, warm_s=0, measure_s=0)
    scenario = disturbed(shape, start.owners(plan.assignments))
    metadata = zip(scenario.member_ids, scenario.metadata, strict=True)
    raw = RawGroup("g", 8, shape.protocol, tuple(RawMember(member_id, None, blob) for member_id, blob in metadata))
    decision = decide(raw, scenario.cluster, Memory.empty(), policy("kafka"), 0)
    assert isinstance(decision, Decision), decision
    return _row(f"group record, {shape}", raw, decision.assignments)


def streams(threads: int, tasks: int) -> Figures:
    """An application with an endpoint and one standby of each task, one thread in each process, started cold."""
    topology, cluster, ends = application(tasks)
    member, sources = "shop-{:05d}-StreamThread-1-consumer", topology.source_topics
    raw = group(*(Thread(member.format(n), n + 1, sources, endpoint=f"shop-{n}.shop:80") for n in range(threads)))
    configs = AssignmentConfigs(num_standby_replicas=1)
    full = decide_streams(raw, cluster, ends, topology, StreamsMemory.empty(), configs, "kafka", 0)
    assert isinstance(full, Decision), full.reason
    slim = without_host_maps(full, "")
    assert slim is not None
    row = _row(f"group record, Streams, 1 standby, {threads:,} threads x {tasks:,} tasks", raw, full.assignments)
    without = record_bytes(raw, slim.assignments)
    fits = [not oversized(raw, plan.assignments, MESSAGE_BYTES_MAX) for plan in (full, slim)]
    message = f"; {_kilobytes(without)} KB without host maps{', and so it is sent' if fits == [False, True] else ''}"
    return {**row, "outcome": row["outcome"] + message}


def _row(name: str, raw: RawGroup, assignments: Assignments) -> Figures:
    size, allowed = record_bytes(raw, assignments), MESSAGE_BYTES_MAX * RECORD_SHARE
    blobs = [*(m.metadata for m in raw.members), *(blob for _, blob in assignments)]
    packed = len(zlib.compress(b"".join(blobs)))
    verdict = "refused" if oversized(raw, assignments, MESSAGE_BYTES_MAX) else "passes"
    outcome = f"{_kilobytes(size)} KB, {size / allowed:.0%} of what is allowed by default: {verdict};"
    return {**figure(name, f"{outcome} {_kilobytes(packed)} KB by gzip"), "load": "-"}  # nothing is timed


def _kilobytes(size: int) -> str:
    return f"{size / 1024:,.0f}"


def main() -> int:
    argparse.ArgumentParser(prog="python -m tests.lab.bench.records", description=__doc__).parse_args()
    for size in CONSUMERS:
        print_and_save(consumers(*size))
    for threads, tasks in APPLICATIONS:
        print_and_save(streams(threads, tasks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
