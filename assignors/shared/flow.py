"""Places tasks on processes in racks at minimum cost, as a minimum-cost flow on classes of tasks.

A task's cost on a process depends on the process's rack and on whether the process holds the task in the placement to
improve. Two steps follow, both exact:

1. Tasks with the same costs, group, holder's rack and owner's rack form one class, and the flow between classes and
   racks is solved. Each process keeps its number of tasks, so within a rack every task that ends in its holder's rack
   can stay with its holder; which task of a class leaves makes no difference.
2. Step 1 sums limits per group and process over each rack, which can only lower the cost. So if its flow can be
   assigned to the processes, it is optimal. If not all of it can, the full network is solved, starting from what could
   be assigned and from the potentials of step 1.

OR-tools' min-cost flow was measured on the network of classes, racks and processes (2 cores, 3 racks): 50 processes x
500 tasks 0.5 ms, 2,000 x 100,000 16 ms, 2,000 x 1,000,000 97 ms, for 125 MB of packages (it needs pandas) and 70 ms of
import. After step 1 the network has a dozen nodes, which `assignors.shared.mincost` solves in 0.1 ms, so OR-tools would
gain nothing.

Ties: among placements of equal cost, the one with more tasks in the racks of their owners wins, then tasks go to the
owners themselves where there is room. The owners' own placement wins whenever it costs no more.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bellwether_kafka.assignors.shared.arrays import IntArray, LongArray, numbered, run_ordinals
from bellwether_kafka.assignors.shared.dense_views import NOBODY
from bellwether_kafka.assignors.shared.mincost import Network

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class FlowProblem:
    """Tasks and the placement to improve. The number of tasks per process does not change.

    `cost[kind[t], rack[p]]` is the cost of task t on process p; `leaving` is added unless p is `holder[t]`. At most
    `limit[group[t], p]` tasks of a group go to process p (None: no limit). `owner[t]` breaks ties (NOBODY: none).
    """

    kind: IntArray
    group: IntArray
    holder: IntArray
    cost: LongArray
    rack: IntArray
    leaving: int
    limit: LongArray | None = None
    owner: IntArray | None = None

    @property
    def groups(self) -> int:
        return 1 if self.limit is None else len(self.limit)

    def total(self, placement: IntArray) -> int:
        traffic = self.cost[self.kind, self.rack[placement]].sum()
        return int(traffic) + self.leaving * int(np.count_nonzero(placement != self.holder))

    def fits(self, placement: IntArray) -> bool:
        """Returns whether a placement respects the quotas and the limits."""
        size = len(self.rack)
        if (placement == NOBODY).any():
            return False
        if (np.bincount(placement, minlength=size) != np.bincount(self.holder, minlength=size)).any():
            return False
        if self.limit is None:
            return True
        used = np.bincount(self.group.astype(np.int64) * size + placement, minlength=self.groups * size)
        return bool((used <= self.limit.reshape(-1)).all())


@dataclass(frozen=True, slots=True, eq=False)
class _Classes:
    """Classes of tasks. Per class: the `group` of its tasks, and `home`, the rack of their holders. `of` is the
    class of each task. `price` per (class, rack) is the cost including ties, `inside` the cost of leaving the holder
    within its rack."""

    of: IntArray
    size: LongArray
    group: IntArray
    home: IntArray
    price: LongArray
    inside: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class _Relaxed:
    """Flow between classes and racks: `remain` is how many tasks of a class stay with their holders, `go` how many go
    to each rack (possibly their own). The potentials are those of classes, of (group, rack) pairs and of racks."""

    remain: LongArray
    go: LongArray
    class_potential: LongArray
    region_potential: LongArray
    rack_potential: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class _Dealt:
    """The flow within racks. `leave` is how many tasks must leave per (class, process). `enter` is how many extra tasks
    may enter per (group, process), beyond those that replace leaving tasks of their group. `complete` is whether every
    task then has a place."""

    leave: LongArray
    enter: LongArray
    complete: bool


def optimise(problem: FlowProblem) -> IntArray:
    """Returns the cheapest placement within the limits that keeps the number of tasks per process.

    Raises ValueError if the limits allow no placement.
    """
    if not len(problem.holder):
        return problem.holder.copy()
    classes = _classes(problem)
    relaxed = _relax(problem, classes)
    if problem.limit is None:
        placement = _place(problem, classes, relaxed.remain, relaxed.go, None)
    else:
        dealt = _deal(problem, problem.limit, classes, relaxed)
        if dealt.complete:
            placement = _place(problem, classes, relaxed.remain, relaxed.go, dealt)
        else:
            placement = _repair(problem, problem.limit, classes, relaxed, dealt)
    owner = problem.owner
    if owner is not None and problem.fits(owner) and problem.total(owner) <= problem.total(placement):
        return owner.astype(np.int32)
    return placement


def _classes(problem: FlowProblem) -> _Classes:
    racks = problem.cost.shape[1]
    home = problem.rack[problem.holder].astype(np.int64)
    seen = home
    if problem.owner is not None:
        seen = np.where(problem.owner == NOBODY, home, problem.rack[problem.owner])
    group = problem.group if problem.limit is not None else np.zeros(1, dtype=np.int32)
    code = ((problem.kind * np.int64(problem.groups) + group) * racks + home) * racks + seen
    distinct, of = numbered(code, len(problem.cost) * problem.groups * racks * racks)
    rest, preferred = np.divmod(distinct, racks)
    rest, homes = np.divmod(rest, racks)
    kinds, groups = np.divmod(rest, problem.groups)
    scale = len(code) + 1
    every = np.arange(racks)
    away = every != homes[:, None]
    price = (problem.cost[kinds] + problem.leaving * away) * scale + (every != preferred[:, None])
    rows = np.arange(len(distinct))
    return _Classes(
        of=of,
        size=np.bincount(of, minlength=len(distinct)),
        group=groups.astype(np.int32),
        home=homes.astype(np.int32),
        price=price,
        inside=price[rows, homes] + problem.leaving * scale,
    )


def _relax(problem: FlowProblem, classes: _Classes) -> _Relaxed:
    """Solves the flow between classes and racks, with limits summed per rack."""
    many, racks = classes.price.shape
    groups = problem.groups
    size = len(problem.rack)
    limited = problem.limit is not None
    regions = groups * racks if limited else 0
    network = Network(many + regions + racks)
    network.excess[:many] = classes.size.tolist()
    quota = np.bincount(problem.holder, minlength=size)
    network.excess[many + regions :] = (-np.bincount(problem.rack, weights=quota, minlength=racks)).astype(int).tolist()
    occupied = np.flatnonzero(np.bincount(problem.rack, minlength=racks))
    row, to = np.repeat(np.arange(many), len(occupied)), np.tile(occupied, many)
    region = classes.group[row] * racks + to if limited else to
    arcs = network.add(row, many + region, classes.size[row], classes.price[row, to])
    inside = range(0)
    if problem.limit is not None:
        own = many + classes.group * racks + classes.home
        inside = network.add(range(many), own, classes.size, classes.inside)
        room = np.zeros((groups, racks), dtype=np.int64)
        np.add.at(room.T, problem.rack, np.minimum(problem.limit, quota).T)
        exits = many + regions + np.tile(np.arange(racks), groups)
        network.add(range(many, many + regions), exits, room.reshape(-1), [0] * regions)
    if not network.solve():
        raise ValueError("no placement keeps the limits")
    go = np.zeros((many, racks), dtype=np.int64)
    go[row, to] = network.flow(arcs)
    rows = np.arange(many)
    remain = go[rows, classes.home]
    go[rows, classes.home] = network.flow(inside) if limited else 0
    potential = np.array(network.potential, dtype=np.int64)
    return _Relaxed(remain, go, potential[:many], potential[many : many + regions], potential[many + regions :])


def _deal(problem: FlowProblem, limit: LongArray, classes: _Classes, relaxed: _Relaxed) -> _Dealt:
    """Finds processes on which a group that shrinks in its rack makes room for one that grows there."""
    size = len(problem.rack)
    groups, racks = problem.groups, classes.price.shape[1]
    counts = _by_class(classes, problem.holder, size)
    used = np.bincount(problem.group.astype(np.int64) * size + problem.holder, minlength=groups * size)
    spare = limit - used.reshape(groups, size)
    complete = bool((spare >= 0).all())
    leave = np.zeros_like(counts)
    enter = np.zeros((groups, size), dtype=np.int64)
    left = classes.size - relaxed.remain
    shrink = np.zeros((groups, racks), dtype=np.int64)
    np.add.at(shrink, (classes.group, classes.home), left)
    np.subtract.at(shrink, classes.group, relaxed.go)
    for r in np.flatnonzero((shrink != 0).any(axis=0)).tolist():
        here = np.flatnonzero(problem.rack == r)
        givers = np.flatnonzero((classes.home == r) & (left > 0) & (shrink[classes.group, r] > 0))
        for g in np.flatnonzero(shrink[:, r] < 0).tolist():
            for c in givers.tolist():
                most = min(-shrink[g, r], shrink[classes.group[c], r], left[c])
                if most <= 0:
                    continue
                possible = np.minimum(np.maximum(spare[g, here], 0), counts[c, here] - leave[c, here])
                taken = np.clip(most - (np.cumsum(possible) - possible), 0, possible)
                amount = int(taken.sum())
                leave[c, here] += taken
                enter[g, here] += taken
                spare[g, here] -= taken
                spare[classes.group[c], here] += taken
                shrink[g, r] += amount
                shrink[classes.group[c], r] -= amount
                left[c] -= amount
    return _Dealt(leave, enter, complete and not shrink.any())


def _by_class(classes: _Classes, process: IntArray, size: int) -> LongArray:
    """Returns the number of tasks per (class, process)."""
    many = len(classes.size)
    return np.bincount(classes.of.astype(np.int64) * size + process, minlength=many * size).reshape(many, size)


def _place(problem: FlowProblem, classes: _Classes, remain: LongArray, go: LongArray, dealt: _Dealt | None) -> IntArray:
    """Assigns the flow to tasks. Within a class the tasks that must leave go first, and tasks already with their owner
    go last."""
    holder = problem.holder
    rank = np.ones(len(holder), dtype=np.int64)
    if problem.owner is not None:
        rank[holder == problem.owner] = 0
    if dealt is not None:
        rank[_must_leave(problem, classes, rank, dealt.leave)] = 2
    order = _stable_order(classes.of * np.int64(3) + rank, 3 * len(remain))
    destinations = np.tile(np.arange(NOBODY, go.shape[1]), len(remain))
    target = np.empty(len(holder), dtype=np.int64)
    target[order] = np.repeat(destinations, np.column_stack([remain, go]).reshape(-1))
    return _fill(problem, classes, target, dealt)


def _must_leave(problem: FlowProblem, classes: _Classes, rank: LongArray, leave: LongArray) -> Index:
    """Selects as many tasks of each (class, process) as must leave it, those already with their owner last."""
    cell = classes.of * np.int64(len(problem.rack)) + problem.holder
    order = _stable_order(1 - rank, 3)
    order = order[_stable_order(cell[order], leave.size)]
    first: Index = order[run_ordinals(cell[order]) < leave.reshape(-1)[cell[order]]]
    return first


def _fill(problem: FlowProblem, classes: _Classes, target: LongArray, dealt: _Dealt | None) -> IntArray:
    """Places the tasks that leave (`target` is their rack, NOBODY for those that stay) where others left: on their
    owner if it has room, else one by one over the processes of the rack."""
    size, racks = len(problem.rack), problem.cost.shape[1]
    placement = problem.holder.astype(np.int32)
    movers = np.flatnonzero(target != NOBODY)
    group = classes.group[classes.of[movers]].astype(np.int64)
    room = np.bincount(group * size + problem.holder[movers], minlength=problem.groups * size)
    if dealt is not None:
        left = np.zeros((problem.groups, size), dtype=np.int64)
        np.add.at(left, classes.group, dealt.leave)
        room += (dealt.enter - left).reshape(-1)
    if problem.owner is not None:
        owner = problem.owner[movers]
        preferred = np.flatnonzero((owner != NOBODY) & (problem.rack[owner] == target[movers]))
        slot = group[preferred] * size + owner[preferred]
        order = _stable_order(slot, len(room))
        to_owner = preferred[order[run_ordinals(slot[order]) < room[slot[order]]]]
        placement[movers[to_owner]] = owner[to_owner]
        room -= np.bincount(group[to_owner] * size + owner[to_owner], minlength=len(room))
        rest = np.delete(np.arange(len(movers)), to_owner)
        movers, group = movers[rest], group[rest]
    slot = np.repeat(np.arange(len(room)), room)
    region = slot // size * racks + problem.rack[slot % size]
    around = np.lexsort((slot, run_ordinals(slot), region))
    placement[movers[_stable_order(group * racks + target[movers], problem.groups * racks)]] = slot[around] % size
    return placement


def _stable_order(codes: LongArray, limit: int) -> Index:
    """Returns a stable argsort of codes between 0 and limit - 1. It sorts 16 bits at a time, which numpy does in linear
    time."""
    order: Index = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    while limit > 1 << 16:
        codes, limit = codes >> 16, (limit >> 16) + 1
        order = order[np.argsort((codes[order] & 0xFFFF).astype(np.uint16), kind="stable")]
    return order


def _repair(problem: FlowProblem, limit: LongArray, classes: _Classes, relaxed: _Relaxed, dealt: _Dealt) -> IntArray:
    """Solves the full network: class -> (group, rack) -> (group, process) -> process, and class -> (group, process) for
    tasks that stay. It starts from the relaxed flow, which is nearly complete."""
    size, racks = len(problem.rack), classes.price.shape[1]
    many, regions, slots = len(classes.size), problem.groups * racks, problem.groups * size
    counts = _by_class(classes, problem.holder, size)
    out, into = _leaving(classes, relaxed, dealt, counts)
    region_of = (np.arange(problem.groups)[:, None] * racks + problem.rack).reshape(-1)
    process_of = np.tile(np.arange(size), problem.groups)
    network = Network(many + regions + slots + size)
    network.excess[:many] = classes.size.tolist()
    network.excess[many + regions + slots :] = (-np.bincount(problem.holder, minlength=size)).tolist()
    of_region, of_rack = relaxed.region_potential, relaxed.rack_potential
    potentials = (relaxed.class_potential, of_region, of_region[region_of], of_rack[problem.rack])
    network.potential = np.concatenate(potentials).tolist()
    slot = many + regions + np.arange(slots)
    rows, at = np.nonzero(counts)
    home = classes.price[np.arange(many), classes.home]

    def add(tail: Index, head: Index, capacity: LongArray, cost: LongArray, flow: LongArray) -> range:
        arcs = network.add(tail, head, capacity, cost)
        network.preset(arcs, flow.tolist())
        return arcs

    slot_of_row = many + regions + classes.group[rows] * size + at
    remains = add(rows, slot_of_row, counts[rows, at], home[rows], (counts - out)[rows, at])
    row, to = np.repeat(np.arange(many), racks), np.tile(np.arange(racks), many)
    leaving = np.where(to == classes.home[row], classes.inside[row], classes.price[row, to])
    goes = add(row, many + classes.group[row] * racks + to, classes.size[row], leaving, relaxed.go[row, to])
    free = np.zeros(slots, dtype=np.int64)
    cap = limit.reshape(-1)
    enters = add(many + region_of, slot, cap, free, into.reshape(-1))
    used = np.zeros_like(into)
    np.add.at(used, classes.group, counts - out)
    add(slot, many + regions + slots + process_of, cap, free, np.minimum(cap, (used + into).reshape(-1)))
    if not network.solve():
        raise ValueError("no placement keeps the limits")
    leave = counts.copy()
    leave[rows, at] -= network.flow(remains)
    go = np.array(network.flow(goes), dtype=np.int64).reshape(many, racks)
    enter = np.array(network.flow(enters), dtype=np.int64).reshape(problem.groups, size)
    return _place(problem, classes, classes.size - leave.sum(axis=1), go, _Dealt(leave, enter, complete=True))


def _leaving(classes: _Classes, relaxed: _Relaxed, dealt: _Dealt, counts: LongArray) -> tuple[LongArray, LongArray]:
    """Returns (tasks that leave per (class, process), tasks that enter per (group, process)), as far as `dealt`
    determines them."""
    open_ = counts - dealt.leave
    left = (classes.size - relaxed.remain - dealt.leave.sum(axis=1))[:, None]
    more = np.clip(left - (np.cumsum(open_, axis=1) - open_), 0, open_)
    enter = dealt.enter.copy()
    np.add.at(enter, classes.group, more)
    return dealt.leave + more, enter
