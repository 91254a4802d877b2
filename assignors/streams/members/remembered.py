"""The destinations of tasks: what the last plan decided but could not do at once.

A plan moves a task over several rebalances: the new process warms up, the owner gives the task up, then the new process
gets it. Lags change in the meantime, and a new plan from lags alone would choose other tasks for other processes,
although some tasks have already been given up. So a plan's destinations apply as long as the group is unchanged.

Running tasks leave their processes at most once per HAND_OVER_MS (see `memory`): tasks that have caught up move
together with those that catch up until then, because each hand-over costs two rebalances. A task that runs nowhere
never waits for this.

The rebalance that only hands out what the last one left pending needs no plan: the target applies as it is, under every
policy. One that the policy did not make, because it was late or could not, applies only while that is still so.

The homes of tasks for host affinity: which process should get each task back, remembered between rebalances.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, Rule, among, lookup, task_code
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskLags, TaskMap, ThreadPlan
from bellwether_kafka.assignors.streams.members.memory import Destinations, Home, StreamsMemory, Target
from bellwether_kafka.assignors.streams.members.processes import ProcessMap
from bellwether_kafka.assignors.streams.members.reports import ThreadClaims
from bellwether_kafka.protocol.primitives import TaskId

Rules = tuple[Rule, ...]


def use_destinations(view: StreamsView, memory: StreamsMemory, tasks: TaskMap, *, expects_reports: bool) -> StreamsView:
    """Returns the view with the destinations that still apply: those of all tasks if the group is unchanged, else those
    of tasks that the last plan left pending for a process that is unchanged. `expects_reports`: a process has come back
    and will soon report its state; then everything destined for it moves together."""
    last = memory.destinations
    if last is None:
        return replace(view, hands_over=not expects_reports)
    table = view.tasks
    same = last.processes == view.processes and np.array_equal(last.subtopology, table.subtopology)
    if not same or not np.array_equal(last.partition, table.partition):
        return replace(view, destination=_pending_for(last, view, memory, tasks), hands_over=not expects_reports)
    just_now = last.next_hand_over_ms(view.now_ms) > view.now_ms
    return replace(view, destination=last.process, hands_over=not (expects_reports or just_now))


def target_of(
    view: StreamsView, plan: StreamsPlan, threads: ThreadPlan, pending: BoolArray, rules: Rules, *, by_policy: bool
) -> Target:
    """Returns what to remember of a plan that leaves these tasks pending."""
    table, tasks = view.tasks, np.flatnonzero(pending)
    with_state = np.sort(task_code(plan.active[tasks], tasks, table.size))
    with_state = with_state[among(with_state, _reported(view))]
    return Target(
        plan=plan,
        threads=threads,
        pending=pending,
        with_state=with_state,
        processes=view.processes,
        subtopology=table.subtopology,
        partition=table.partition,
        lags_known=view.lags_known,
        rules=rules,
        by_policy=by_policy,
    )


def target_to_carry_out(
    view: StreamsView,
    tasks: TaskMap,
    claims: ThreadClaims,
    keys: Sequence[str],
    memory: StreamsMemory,
    rules: Rules,
    *,
    careful: bool,
) -> Target | None:
    """Returns the target of the last plan if something of it is still pending and nothing else has changed since, else
    None. Processes with their threads, tasks and `rules` must be the same, no process may have to report after a
    restart, and threads (rows with these `keys`) must have nothing that the last plan did not give them or ask of them.
    `careful`: also, new processes must still have their state, and owners must have given up what is pending."""
    last, table = memory.target, view.tasks
    if last is None or (last.processes, last.lags_known, last.rules) != (view.processes, view.lags_known, rules):
        return None
    if not np.array_equal(last.subtopology, table.subtopology) or not np.array_equal(last.partition, table.partition):
        return None
    if any(record.hidden.any() for record in memory.records.values()):
        return None
    given, had = (plan.owner_in(tasks.cluster, keys)[claims.flat] for plan in (memory.plan, memory.owned))
    if ((given != claims.member) & (had != claims.member)).any():
        return None
    if careful and lookup(last.pending, claims.tasks(tasks), False).any():
        return None
    return last if not careful or among(last.with_state, _reported(view)).all() else None


def _reported(view: StreamsView) -> LongArray:
    """Returns the ascending codes of (process, task) of the state that processes themselves reported."""
    codes = view.report.codes(view.tasks.size)
    return codes[~view.report_hidden] if len(view.report_hidden) else codes


def destinations_after(view: StreamsView, plan: StreamsPlan, memory: StreamsMemory) -> Destinations:
    """Returns what to remember once this plan has been sent."""
    last = memory.destinations
    owned = view.previous_active
    leaves = bool((plan.active[owned.values] != owned.row).any())
    return Destinations(
        processes=view.processes,
        subtopology=view.tasks.subtopology,
        partition=view.tasks.partition,
        process=plan.destination if len(plan.destination) else plan.active,
        handed_over_ms=view.now_ms if leaves else last.handed_over_ms if last is not None else None,
    )


def _pending_for(last: Destinations, view: StreamsView, memory: StreamsMemory, tasks: TaskMap) -> IntArray:
    """Returns, for each task that was sent to no process and runs nowhere, the process that it was meant for, if that
    is unchanged."""
    index = {process: p for p, process in enumerate(view.processes)}
    process = np.array([*(index.get(process, NOBODY) for process in last.processes), NOBODY], dtype=np.int32)
    task = tasks.index(last.subtopology, last.partition)
    meant: IntArray = np.full(view.tasks.size + 1, NOBODY, dtype=np.int32)
    meant[task] = process[last.process]
    sent = memory.plan.owner_in(tasks.cluster, memory.plan.members.keys) != NOBODY
    meant[tasks.task_of[sent]] = NOBODY
    return np.where(view.running_on == NOBODY, meant[:-1], NOBODY)


Homes = Mapping[TaskId, Home]
NO_HOMES: Homes = MappingProxyType({})


def known_homes(memory: StreamsMemory, tasks: TaskMap, process_map: ProcessMap, now_ms: int, window_ms: int) -> Homes:
    """Returns the stateful tasks of processes that left after the last plan, and homes remembered for less than
    `window_ms`."""
    if window_ms <= 0:
        return NO_HOMES
    present = {process.process_id for process in process_map.processes}
    homes = {task: home for task, home in memory.homes.items() if now_ms - home.left_at_ms <= window_ms}
    keys = list(memory.threads)
    gone = [memory.threads[key].process_id not in present for key in keys]
    owner = memory.plan.owner_in(tasks.cluster, keys)
    for flat in np.flatnonzero((owner != NOBODY) & np.array([*gone, False], dtype=np.bool_)[owner]).tolist():
        task = int(tasks.task_of[flat])
        if task != NOBODY and tasks.table.stateful[task]:
            homes[tasks.table.task_id(task)] = Home(memory.threads[keys[int(owner[flat])]].process_id, now_ms)
    return homes


def home_of(view: StreamsView, homes: Homes) -> tuple[IntArray, Homes]:
    """Returns (per task the process index of its home, NOBODY if there is none or it is absent; the homes still to be
    remembered). A process that came back without a task's state is no longer its home."""
    home = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    if not homes:
        return home, NO_HOMES
    lags = TaskLags.of(view, 0)
    index = {process.process_id: p for p, process in enumerate(view.processes)}
    kept: dict[TaskId, Home] = {}
    for task in range(view.tasks.size):
        remembered = homes.get(view.tasks.task_id(task))
        if remembered is None:
            continue
        process = index.get(remembered.process_id, NOBODY)
        if process == NOBODY or task in lags.state_of(process):
            home[task] = process
            kept[view.tasks.task_id(task)] = remembered
    return home, kept
