"""The bytes that threads are sent, read back by the dataclasses: random plans of applications whose topics differ in
size, in every version."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams.application import (
    EndOffsets,
    StreamsPlan,
    StreamsView,
    Subtopology,
    Topology,
    build_tasks,
)
from bellwether_kafka.assignors.streams.sending import (
    Outgoing,
    deadlines,
    encode_assignments,
    host_maps,
    own_assignment,
    shutdown_assignment,
)
from bellwether_kafka.protocol.messages import NEVER_MS, AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.messages.streams import ByHost
from bellwether_kafka.protocol.primitives import HostInfo, TaskId, TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams_views import Application, Instance, process_id

TOPOLOGY = Topology(
    "app",
    (
        Subtopology(0, ("users", "orders"), changelogs=("app-joined-changelog",)),
        Subtopology(2, ("clicks",)),
        Subtopology(3, ("a", "views", "late"), changelogs=("app-views-changelog",)),
    ),
    "file",
)
COUNTS = {"orders": 5, "users": 3, "other": 4, "clicks": 4, "a": 1, "views": 300, "late": 4}
TASKS, _ = build_tasks(TOPOLOGY, cluster_of(COUNTS), EndOffsets({}))


def partitions_of(task: int) -> list[TopicPartition]:
    """What a task reads, by name."""
    subtopology, number = int(TASKS.table.subtopology[task]), int(TASKS.table.partition[task])
    (sources,) = [s.sources for s in TOPOLOGY.subtopologies if s.id == subtopology]
    return [TopicPartition(topic, number) for topic in sorted(sources) if number < COUNTS[topic]]


def task_id(task: int) -> TaskId:
    return TaskId(int(TASKS.table.subtopology[task]), int(TASKS.table.partition[task]))


def random_plan(random: Random) -> tuple[StreamsView, StreamsPlan]:
    """Up to five processes, some with an endpoint, two of them perhaps with the same."""
    instances = [Instance(process_id(n + 1)) for n in range(random.randint(1, 5))]
    view = Application([(1, None)], instances).view()
    endpoints = [random.choice([None, HostInfo("h", 1), HostInfo("h", 2), HostInfo("i", 65_000)]) for _ in instances]
    processes = tuple(replace(p, endpoint=e) for p, e in zip(view.processes, endpoints, strict=True))
    chosen = random.sample(range(TASKS.table.size), 60)
    active = np.full(TASKS.table.size, NOBODY, dtype=np.int32)
    active[chosen] = [random.randrange(NOBODY, len(instances)) for _ in chosen]
    pairs = sorted({(task, random.randrange(len(instances))) for task in chosen[:20]})
    task, process = (np.array([pair[i] for pair in pairs], dtype=np.int32) for i in range(2))
    plan = StreamsPlan(active, task, process, np.zeros(len(pairs), dtype=np.bool_))
    return replace(view, processes=processes), plan


def by_host(view: StreamsView, tasks: list[tuple[int, int]]) -> dict[HostInfo, list[TopicPartition]]:
    """(process, task) pairs as the partitions of each endpoint, endpoints in the order of processes."""
    hosts: dict[HostInfo, list[TopicPartition]] = {p.endpoint: [] for p in view.processes if p.endpoint}
    for process, task in tasks:
        endpoint = view.processes[process].endpoint if process != NOBODY else None
        if endpoint:
            hosts[endpoint] += partitions_of(task)
    return {host: sorted(partitions) for host, partitions in hosts.items()}


def frozen(hosts: dict[HostInfo, list[TopicPartition]]) -> ByHost:
    return tuple((host, tuple(partitions)) for host, partitions in hosts.items())


def outgoing(random: Random, plan: StreamsPlan, version: int) -> Outgoing:
    """Three threads; what the plan places goes to any of them."""
    rows = 3
    holder = np.array([random.randrange(NOBODY, rows) if p != NOBODY else NOBODY for p in plan.active], dtype=np.int32)
    standby = sorted((random.randrange(rows), task) for task in plan.standby_task.tolist())
    return Outgoing(
        rows,
        holder,
        np.array([row for row, _ in standby], dtype=np.int32),
        np.array([task for _, task in standby], dtype=np.int32),
        np.array([random.choice([0, NEVER_MS, 1_700_000_000_123]) for _ in range(rows)], dtype=np.int64),
        np.array([random.random() < 0.3 for _ in range(rows)], dtype=np.bool_),
        version,
        9,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", range(1, 12))
def test_every_thread_reads_its_tasks_and_where_all_others_run(version: int, seed: int) -> None:
    random = Random(seed)
    view, plan = random_plan(random)
    out = outgoing(random, plan, version)
    hosts = frozen(by_host(view, active_pairs(plan)))
    standby_hosts = frozen(
        by_host(view, [*zip(plan.standby_process.tolist(), plan.standby_task.tolist(), strict=True)])
    )
    blobs = encode_assignments(TASKS, host_maps(view, plan, TASKS), out)
    assert len(blobs) == out.rows
    for row, blob in enumerate(blobs):
        mine = sorted((tp, task_id(t)) for t in np.flatnonzero(out.holder == row).tolist() for tp in partitions_of(t))
        kept = [t for r, t in zip(out.standby_row.tolist(), out.standby_task.tolist(), strict=True) if r == row]
        without_hosts = bool(out.without_hosts[row])
        assignment = ConsumerProtocolAssignment.decode(blob)
        assert assignment.version == 1
        assert assignment.partitions == tuple(tp for tp, _ in mine)
        info = AssignmentInfo.decode(assignment.user_data or b"")
        assert info == AssignmentInfo(
            version,
            9 if version >= 3 else -1,
            tuple(task for _, task in mine),
            tuple((task_id(t), tuple(partitions_of(t))) for t in kept),
            hosts if version >= 2 and not without_hosts else (),
            standby_hosts if version >= 6 and not without_hosts else (),
            0,
            int(out.next_rebalance_ms[row]) if version >= 7 else NEVER_MS,
        )
        assert len(info.encode()) == len(assignment.user_data or b""), "there are bytes behind the end"


def active_pairs(plan: StreamsPlan) -> list[tuple[int, int]]:
    return [(process, task) for task, process in enumerate(plan.active.tolist())]


def test_without_endpoints_there_are_no_hosts() -> None:
    view, plan = random_plan(Random(1))
    bare = replace(view, processes=tuple(replace(process, endpoint=None) for process in view.processes))
    hosts = host_maps(bare, plan, TASKS)
    assert (hosts.hosts, hosts.active, hosts.standby) == ((), (), ())


def test_bellwethers_own_member_gets_nothing_and_waits_for_nothing() -> None:
    assignment = ConsumerProtocolAssignment.decode(own_assignment())
    assert (assignment.version, assignment.partitions) == (1, ())
    assert AssignmentInfo.decode(assignment.user_data or b"") == AssignmentInfo()


@pytest.mark.parametrize(("version", "carried"), [(1, 11), (3, 11), (4, 4), (5, 5), (11, 11)])
def test_who_must_stop_is_reported_so_in_a_version_that_can_say_it(version: int, carried: int) -> None:
    assignment = ConsumerProtocolAssignment.decode(shutdown_assignment(version, 8, 2))
    assert (assignment.version, assignment.partitions) == (1, ())
    assert AssignmentInfo.decode(assignment.user_data or b"") == AssignmentInfo(carried, 8, error_code=2)


def test_now_goes_before_later_and_later_before_never() -> None:
    assert deadlines(4, [1], [(1, 50), (2, 70)]).tolist() == [NEVER_MS, 0, 70, NEVER_MS]
    assert deadlines(1, []).tolist() == [NEVER_MS]


def test_the_owner_of_each_partition_and_nobody_for_topics_that_no_task_reads() -> None:
    out = replace(outgoing(Random(2), random_plan(Random(2))[1], 11), holder=np.zeros(TASKS.table.size, dtype=np.int32))
    owner = dict(zip(map(TASKS.cluster.name, range(TASKS.cluster.partition_total)), out.owner(TASKS), strict=True))
    assert {tp.topic for tp, row in owner.items() if row == NOBODY} == {"other"}
