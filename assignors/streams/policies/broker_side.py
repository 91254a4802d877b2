"""The broker's task assignor as a policy for comparison. Bellwether never leads with it (see
`assignors/broker_side`)."""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from bellwether_kafka.assignors.broker_side import NEWEST, STICKY, BrokerTask, StreamsMember, assign_sticky
from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
)

BROKER_STICKY = STICKY


def assign_broker_sticky(
    view: StreamsView,
    configs: AssignmentConfigs,
    _policy: str = BROKER_STICKY,
    *,
    release: str = NEWEST,
    restarted: bool = False,
) -> StreamsPlan:
    """Returns where a broker of this release would place each task. It places tasks on threads, but only their
    processes count here, because threads are assigned later. It has no warm-ups, so tasks move at once. `restarted`:
    all members were stopped and join anew, with what is on their disks."""
    if not view.size:
        return StreamsPlan.of_active(np.full(view.tasks.size, NOBODY, dtype=np.int32))
    members, process_of = _restarted(view) if restarted else _members(view)
    table = view.tasks
    names = [(str(s), p) for s, p in zip(table.subtopology.tolist(), table.partition.tolist(), strict=True)]
    kinds = zip(names, table.stateful.tolist(), strict=True)
    stateless: list[BrokerTask] = []
    stateful: list[BrokerTask] = []
    for name, keeps_state in kinds:
        (stateful if keeps_state else stateless).append(name)
    broker_copies = assign_sticky(
        members, stateless, stateful, configs.num_standby_replicas, offsets_count=release == NEWEST
    )
    number = {name: task for task, name in enumerate(names)}
    active = np.full(table.size, NOBODY, dtype=np.int32)
    for thread, tasks in enumerate(broker_copies.active):
        active[[number[task] for task in tasks]] = process_of[thread]
    copies = sorted((number[task], process_of[m]) for m, tasks in enumerate(broker_copies.standby) for task in tasks)
    rows = np.array(copies, dtype=np.int32).reshape(-1, 2)
    return StreamsPlan.of(active, rows[:, 0], rows[:, 1])


def _members(view: StreamsView) -> tuple[list[StreamsMember], list[int]]:
    """Returns the threads in the order of the view, with what they run and keep, and the process of each. A task whose
    thread is unknown counts for the first thread of its process."""
    process_of = [p for p, process in enumerate(view.processes) for _ in process.members]
    first = np.cumsum([0, *(process.capacity for process in view.processes)]).tolist()
    runs: dict[int, set[BrokerTask]] = defaultdict(set)
    keeps: dict[int, set[BrokerTask]] = defaultdict(set)
    running = view.running_on.tolist() or [NOBODY] * view.tasks.size
    for p in range(view.size):
        reported = {task: n for n in range(first[p], first[p + 1]) for task in view.tasks_of_thread(n).tolist()}
        for task in view.previous_active[p].tolist():
            thread = running[task] if first[p] <= running[task] < first[p + 1] else reported.get(task, first[p])
            runs[thread].add(_name(view, task))
        for task in view.previous_standby[p].tolist():
            keeps[reported.get(task, first[p])].add(_name(view, task))
    names = [(member, str(process.process_id)) for process in view.processes for member in process.members]
    sums = [_sums(view, p) for p in range(view.size)]
    members = [
        StreamsMember(member, process, frozenset(runs[n]), frozenset(keeps[n]), _of(sums[process_of[n]], keeps[n]))
        for n, (member, process) in enumerate(names)
    ]
    return members, process_of


def _restarted(view: StreamsView) -> tuple[list[StreamsMember], list[int]]:
    """Returns threads that have no tasks. Each reports what is on the disk of its process."""
    process_of = [p for p, process in enumerate(view.processes) for _ in process.members]
    sums = [_sums(view, p) for p in range(view.size)]
    members = [
        StreamsMember(member, str(process.process_id), offsets=sums[p])
        for p, process in enumerate(view.processes)
        for member in process.members
    ]
    return members, process_of


def _sums(view: StreamsView, process: int) -> dict[BrokerTask, int]:
    """Returns the sum of changelog offsets of each task that the process reported; 0 if its lag is not known."""
    tasks, lag_of = view.report[process].tolist(), view.report_lag[view.report.span(process)].tolist()
    ends = view.tasks.end_sum.tolist()
    reached = {LATEST_OFFSET: 0}
    return {
        _name(view, task): max(0, ends[task] - reached.get(lag, lag)) if lag != UNKNOWN_OFFSET_SUM else 0
        for task, lag in zip(tasks, lag_of, strict=True)
    }


def _of(sums: Mapping[BrokerTask, int], tasks: AbstractSet[BrokerTask]) -> dict[BrokerTask, int]:
    return {task: sums[task] for task in tasks if task in sums}


def _name(view: StreamsView, task: int) -> BrokerTask:
    return str(int(view.tasks.subtopology[task])), int(view.tasks.partition[task])
