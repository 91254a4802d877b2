"""The broker's task assignor as a policy for comparison. Bellwether never leads with it (see
`assignors/broker_side`)."""

from collections import defaultdict

import numpy as np

from bellwether_kafka.assignors.broker_side import STICKY, BrokerTask, StreamsMember, assign_sticky
from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView

BROKER_STICKY = STICKY


def assign_broker_sticky(view: StreamsView, configs: AssignmentConfigs, _policy: str = BROKER_STICKY) -> StreamsPlan:
    """Returns where a broker would place each task. It places tasks on threads, but only their processes count here,
    because threads are assigned later. It has no warm-ups, so tasks move at once."""
    if not view.size:
        return StreamsPlan.of_active(np.full(view.tasks.size, NOBODY, dtype=np.int32))
    members, process_of = _members(view)
    table = view.tasks
    names = [(str(s), p) for s, p in zip(table.subtopology.tolist(), table.partition.tolist(), strict=True)]
    kinds = zip(names, table.stateful.tolist(), strict=True)
    stateless: list[BrokerTask] = []
    stateful: list[BrokerTask] = []
    for name, keeps_state in kinds:
        (stateful if keeps_state else stateless).append(name)
    broker_copies = assign_sticky(members, stateless, stateful, configs.num_standby_replicas)
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
    members = [
        StreamsMember(member_id=member, process_id=process, active=frozenset(runs[n]), standby=frozenset(keeps[n]))
        for n, (member, process) in enumerate(names)
    ]
    return members, process_of


def _name(view: StreamsView, task: int) -> BrokerTask:
    return str(int(view.tasks.subtopology[task])), int(view.tasks.partition[task])
