"""Task movements: tasks stay where their state is until the process they were meant for has caught up.

The port of TaskMovement (docs/reference/streams.md#task-movements). The placement says where everything should end up;
a movement takes an active task or a standby back to a process that has its state now, and lets the intended process
warm up, as long as the budget of warm-up replicas lasts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.java import PrioritySet, drain_order
from bellwether_kafka.assignors.shared import BoolArray, IntArray
from bellwether_kafka.assignors.streams.application import TaskLags
from bellwether_kafka.assignors.streams.placing.placement import Placement

Hashes = Callable[[], Sequence[int]]
NOWHERE: Mapping[int, int] = MappingProxyType({})


class WarmupBudget:
    """How many warm-up replicas may still be made; it is asked once per movement and may go below zero."""

    __slots__ = ("_left",)

    def __init__(self, replicas: int) -> None:
        self._left = replicas

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0


def move_actives(
    place: Placement,
    tasks: IntArray,
    lags: TaskLags,
    budget: WarmupBudget,
    hashes: Hashes,
    running: Mapping[int, int] = NOWHERE,
    first: BoolArray | None = None,
) -> int:
    """Moves each of these active tasks whose process lags behind to one that does not; returns how many it moved.

    Pure swaps with a standby that has caught up count too. Tasks in `running` (the process where each runs now) stay
    there meanwhile; Java sends them to whoever has caught up and is the lightest, and later once more. Tasks in `first`
    (per task) are asked for warm-ups first.
    """
    owners = place.owners(tasks)
    late = tasks[lags.behind(tasks, owners)]
    later = np.zeros(len(late), dtype=np.bool_) if first is None else ~first[late]
    queue = late[np.lexsort((late, lags.caught_count[late], later))]
    lightest = PrioritySet(place, hashes)
    for task in queue.tolist():
        home = running.get(task)
        if home is None:
            _move_active(place, task, lags, budget, lightest)
        else:
            _stay_active(place, task, home, budget, lightest)
    return len(queue)


def _move_active(place: Placement, task: int, lags: TaskLags, budget: WarmupBudget, lightest: PrioritySet) -> None:
    destination = place.active[task]
    standbys = place.standbys[task]
    caught = lags.caught_up(task)
    source = lightest.poll([p for p in caught if p in standbys] if standbys else ())
    if source is not None:
        _swap(place, task, source, destination)
        lightest.offer(source, destination, polled=True)
        return
    source = lightest.poll(caught)
    polled = source is not None
    if source is None:
        source = lags.first_before(task, destination, lambda _: True)
        if source is None:  # cannot be: the task was queued because some process lags less
            return
        if source in standbys:
            _swap(place, task, source, destination)
            lightest.offer(source, destination, polled=False)
            return
    _run_meanwhile(place, task, source, budget, lightest, polled=polled)


def _stay_active(place: Placement, task: int, home: int, budget: WarmupBudget, lightest: PrioritySet) -> None:
    destination, copies = place.active[task], place.standbys[task]
    if home in copies:
        _swap(place, task, home, destination)
        lightest.offer(home, destination, polled=False)
        return
    _run_meanwhile(place, task, home, budget, lightest, polled=False)


def _run_meanwhile(
    place: Placement, task: int, source: int, budget: WarmupBudget, lightest: PrioritySet, *, polled: bool
) -> None:
    """The source runs the task, and the intended process warms up if the budget lets it."""
    destination = place.active[task]
    place.active[task] = source
    place.load[source] += 1
    if budget.take():
        place.standbys[task].append(destination)
        place.warmups.add((task, destination))
        lightest.offer(source, destination, gained=1, polled=polled)
        return
    place.load[destination] -= 1
    lightest.offer(source, destination, gained=1, lost=1, polled=polled)


def _swap(place: Placement, task: int, source: int, destination: int) -> None:
    """The standby takes over, and the intended process keeps a standby instead: nothing that counts changes."""
    copies = place.standbys[task]
    copies[copies.index(source)] = destination
    place.active[task] = source


def move_standbys(
    place: Placement,
    lags: TaskLags,
    budget: WarmupBudget,
    hashes: Hashes,
    *,
    closer: bool = False,
    urgent: Collection[int] = (),
) -> int:
    """Does the same for standbys other than the warm-ups just made; returns how many moved.

    Where nobody else has caught up, Java moves a standby to whoever comes first by lag, also one that lags as much but
    has a smaller id. With `closer` only strictly less lag counts. Tasks in `urgent` get warm-ups before others.
    """
    task, process = place.replicas()
    late = lags.behind(task, process)
    if place.warmups:
        made = np.array([t * place.size + p for t, p in place.warmups], dtype=np.int64)
        late &= ~np.isin(task.astype(np.int64) * place.size + process, made)
    task, process = task[late], process[late]
    by_process = np.lexsort((task, process))
    task, process = task[by_process], process[by_process]
    keys = lags.caught_count[task] * lags.tasks + task
    if urgent:
        keys[np.isin(task, list(urgent))] -= (lags.processes + 1) * lags.tasks
    lightest = PrioritySet(place, hashes)
    moved = 0
    tasks, processes = task.tolist(), process.tolist()
    for at in drain_order(keys.tolist()):
        moved += _move_standby(place, tasks[at], processes[at], lags, budget, lightest, closer=closer)
    return moved


def _move_standby(
    place: Placement,
    task: int,
    destination: int,
    lags: TaskLags,
    budget: WarmupBudget,
    lightest: PrioritySet,
    *,
    closer: bool,
) -> bool:
    active, copies = place.active[task], place.standbys[task]
    source = lightest.poll([p for p in lags.caught_up(task) if p != active and p not in copies])
    polled = source is not None
    if source is None:
        source = lags.first_before(task, destination, lambda p: p != active and p not in copies, closer=closer)
        if source is None:
            return False
    place.add_standby(task, source)
    if budget.take():
        place.warmups.add((task, destination))
        lightest.offer(source, destination, gained=1, polled=polled)
        return True
    place.remove_standby(task, destination)
    lightest.offer(source, destination, gained=1, lost=1, polled=polled)
    return True
