"""Operators' rules on active tasks: pins, bans and evacuations in the notation of `assignors/shared/rules.py`. An item
is a task such as "1_5", a subtopology such as "1", or "*". This is the last stage, and it is hard: it overrides
balance. The places of an applied plan are pins that yield to other rules. Before the other stages, too, tasks leave
processes that may not have them (`narrow`), and no stage places them there: what would be undone here moved others.

It decides where tasks should end up. If a process has state that no other process has yet, the task runs on there until
a warm-up elsewhere has caught up, so an evacuated process empties without a pause.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bellwether_kafka.assignors.shared import (
    EVERYTHING,
    NOBODY,
    BoolArray,
    IntArray,
    LongArray,
    Rule,
    StageReport,
    applicable,
    behind,
    known_racks,
    ordered,
    yielding_last,
)
from bellwether_kafka.assignors.streams.application import ProcessView, StreamsView, TaskTable, is_caught_up
from bellwether_kafka.assignors.streams.stages.chain import TaskProblem
from bellwether_kafka.protocol.primitives import whole_number

NAME = "operator's rules"
PARTITIONS = 2**31  # more than a subtopology can have: a task is one number


class _Thread(NamedTuple):
    """A member. A view does not have its instance id."""

    member_id: str
    instance_id: None = None


def moved_by_rules(
    problem: TaskProblem, rules: Sequence[Rule], allowed: BoolArray, owner: IntArray, released: BoolArray
) -> tuple[IntArray, StageReport]:
    """Returns the owners under the rules, and a report. The given array is not changed. `allowed` is what the rules
    allow; `released` marks the tasks that they took from their owners before the other stages."""
    table, size = problem.view.tasks, problem.view.size
    beside = np.delete(owner, problem.tasks)
    others = np.bincount(beside[beside != NOBODY], minlength=size)
    wanted = narrow(problem, rules, allowed, owner, others.astype(np.int64))
    mine = np.zeros(table.size, dtype=np.bool_)
    mine[problem.tasks] = True
    placed = released & mine | (wanted != owner)
    wrong, orders = int(placed.sum()), ordered(_in_effect(problem.view, rules))
    reason = f"{f'{wrong} tasks are placed elsewhere' if wrong else 'They hold'}{behind(orders)}."
    report = StageReport(NAME, True, float(wrong), 0.0, True, reason, wanted, orders=orders, released=placed)
    return wanted, report


def narrow(
    problem: TaskProblem, rules: Sequence[Rule], allowed: BoolArray, owner: IntArray, others: LongArray
) -> IntArray:
    """Returns owners in which no task of the problem is where it may not be, as long as there is another process that
    may have it. `others[p]` is what process p has besides these tasks. The given array is not changed."""
    wanted = owner.copy()
    wrong = [t for t in problem.tasks.tolist() if not allowed[t, owner[t]] and allowed[t].any()]
    remains = [t for t in wrong if problem.live[t] != NOBODY and allowed[t, problem.live[t]]]
    wanted[remains] = problem.live[remains]
    moves = np.setdiff1d(wrong, remains).astype(np.int32)
    stay = wanted[np.setdiff1d(problem.tasks, moves)]
    load = (others + np.bincount(stay, minlength=problem.view.size)).astype(np.float64)
    evacuated = any(rule.empties for rule in rules)
    for task in moves.tolist():
        target = _target(problem, task, np.flatnonzero(allowed[task]).astype(np.int32), load, evacuated=evacuated)
        wanted[task] = target
        load[target] += 1
    return wanted


def means(process: ProcessView, where: str) -> bool:
    """Returns whether `where` refers to this process: by its rack, its id, or a member id or client id of its
    threads."""
    kind, _, name = where.partition(":")
    if kind == "rack":
        return process.rack == name
    ids = (*process.members, *process.client_ids)
    return name == str(process.process_id) or any(each == name or each.startswith(f"{name}-") for each in ids)


def infeasible(view: StreamsView, rule: Rule, others: Sequence[Rule]) -> str:
    """Returns why this rule cannot be kept here together with the others, as a part of a sentence; "" if it can."""
    if not any(means(process, rule.where) for process in view.processes):
        racks = sorted({process.rack for process in view.processes if process.rack is not None})
        return f"no process is {rule.where}; {known_racks(racks)}"
    named = _named(view.tasks, rule.item)
    if not named.any():
        subtopologies = sorted({int(s) for s in view.tasks.subtopology})
        return f"{rule.item} is neither a task nor a subtopology; those are {', '.join(map(str, subtopologies))}"
    stuck = np.flatnonzero(named & ~allowed_by(view, (*others, rule)).any(axis=1))
    if not len(stuck):
        return ""
    more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    return f"no process may have {view.tasks.task_id(int(stuck[0]))}{more} then"


def against(view: StreamsView, rules: Sequence[Rule], owner: IntArray) -> IntArray:
    """Returns the tasks whose owner may not have them although another process may."""
    allowed = allowed_by(view, rules)
    owned = np.flatnonzero(owner != NOBODY)
    wrong = ~allowed[owned, owner[owned]] & allowed[owned].any(axis=1)
    misplaced: IntArray = owned[wrong].astype(np.int32)
    return misplaced


def last_copies(view: StreamsView, rules: Sequence[Rule], acceptable_lag: int) -> IntArray:
    """Returns the tasks whose only caught-up copies are on processes that these rules evacuate."""
    evacuated = evacuated_by(view, rules)
    task, process = view.report.values, view.report.row
    caught_up = is_caught_up(view.report_lag, acceptable_lag) & view.tasks.stateful[task]
    endangered: IntArray = np.setdiff1d(task[caught_up], task[caught_up & ~evacuated[process]]).astype(np.int32)
    return endangered


def evacuated_by(view: StreamsView, rules: Sequence[Rule]) -> BoolArray:
    """Marks the processes that these rules evacuate."""
    emptying = [rule for rule in rules if rule.empties]
    return np.array([any(means(p, rule.where) for rule in emptying) for p in view.processes], dtype=np.bool_)


def allowed_by(view: StreamsView, rules: Sequence[Rule]) -> BoolArray:
    """Returns task x process: whether the rules allow it. A rule that refers to no process has no effect.

    Successive rules of one kind and place are joined: an applied plan has a rule for each task, process by process.
    """
    allowed = np.ones((view.tasks.size, view.size), dtype=np.bool_)
    for (kind, where), joined in groupby(yielding_last(_in_effect(view, rules)), key=attrgetter("kind", "where")):
        meant = np.array([means(process, where) for process in view.processes], dtype=np.bool_)
        if not meant.any():
            continue
        tasks = np.flatnonzero(_named(view.tasks, *(rule.item for rule in joined)))
        if kind == "plan":
            tasks = tasks[(allowed[tasks] & meant).any(axis=1)]
        allowed[tasks] &= ~meant if kind == "ban" else meant
    return allowed


def _in_effect(view: StreamsView, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return applicable(rules, [_Thread(member) for process in view.processes for member in process.members])


def _named(table: TaskTable, *items: str) -> BoolArray:
    """Marks the tasks that these items name."""
    if EVERYTHING in items:
        return np.ones(table.size, dtype=np.bool_)
    ids = [task_id for item in items if (task_id := _parsed(item)) is not None]
    subtopologies = [subtopology for subtopology, partition in ids if partition is None]
    tasks = [subtopology * PARTITIONS + partition for subtopology, partition in ids if partition is not None]
    named: BoolArray = np.isin(table.subtopology, subtopologies)
    named |= np.isin(table.subtopology * np.int64(PARTITIONS) + table.partition, tasks)
    return named


def _parsed(item: str) -> tuple[int, int | None] | None:
    """Returns the subtopology and, for a task, the partition; None for what is neither."""
    first, _, second = item.partition("_")
    subtopology, partition = whole_number(first), whole_number(second)
    if subtopology is None or (second and partition is None):
        return None
    return None if max(subtopology, partition or 0) >= PARTITIONS else (subtopology, partition)


def _target(
    problem: TaskProblem, task: int, processes: IntArray, load: npt.NDArray[np.float64], *, evacuated: bool
) -> int:
    """Returns the allowed process with the least load. An evacuation ends, and the task comes back; until then it goes
    where it need not move once more when a warm-up has caught up, and rather to an existing copy than to where even a
    small one would have to be made."""
    stateless = np.array([task not in problem.lags.state_of(int(p)) for p in processes], dtype=np.int64)
    late = problem.lags.behind(np.full(len(processes), task, dtype=np.int32), processes) & evacuated
    share = load[processes] / np.maximum(1, problem.view.capacity[processes])
    remote = problem.remote(task, processes) if problem.racks else np.zeros(len(processes), dtype=np.int64)
    last = (stateless, late) if evacuated else (late,)
    return int(processes[np.lexsort((processes, remote, stateless, share, *last))[0]])
