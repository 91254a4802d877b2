"""KIP-1071's StickyTaskAssignor: tasks stay with their former members, up to an even share, then go to members that had
a copy, then to the least loaded. It has no warm-ups or racks, and ignores client tags. From Kafka 4.4 on a member that
reports an offset of a task counts as one with a copy, too, after those that keep a standby, the most advanced first.

Processes and members are in Java's hash order, and the least loaded one comes from a heap as Java builds it, because
both decide ties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import JavaHeap
from bellwether_kafka.protocol.primitives import computed_map_order, hash_map_order, string_hash

BrokerTask = tuple[str, int]  # subtopology and partition
_LEAST_BUCKETS = 16


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A thread: the tasks that it runs, those of which it keeps a copy, and the sums of changelog offsets that it
    reports, also of tasks of which only the state is on its disk."""

    member_id: str
    process_id: str
    active: frozenset[BrokerTask] = frozenset()
    standby: frozenset[BrokerTask] = frozenset()
    offsets: Mapping[BrokerTask, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copies:
    """The tasks of each member, by member index."""

    active: tuple[frozenset[BrokerTask], ...]
    standby: tuple[frozenset[BrokerTask], ...]


def assign_sticky(
    members: Sequence[StreamsMember],
    stateless: Sequence[BrokerTask],
    stateful: Sequence[BrokerTask],
    standbys: int,
    *,
    offsets_count: bool,
) -> Copies:
    """Returns an assignment with `standbys` copies of each stateful task, never two in one process. `offsets_count`: as
    from Kafka 4.4 on."""
    if not members:
        return Copies((), ())
    tasks = [*stateless, *stateful]
    return _Sticky(members, tasks, stateful, standbys, offsets_count=offsets_count).assign()


@dataclass(slots=True)
class _Share:
    """How many tasks a member may have: the remaining tasks divided by the members that are not full, rounded up."""

    tasks: int
    members: int
    each: int = field(init=False)

    def __post_init__(self) -> None:
        self.each = -(-self.tasks // self.members) if self.members else 0

    def now_has(self, count: int) -> None:
        if count == self.each:
            self.members -= 1
            self.tasks -= count
            self.each = -(-self.tasks // self.members) if self.members else 0


class _Process:
    """One instance. `members` are in Java's order."""

    def __init__(self, members: Sequence[int]) -> None:
        self.members, self.tasks, self.count = members, set[BrokerTask](), 0
        self._heap: JavaHeap | None = None

    @property
    def load(self) -> float:
        return self.count / len(self.members)

    def least(self, count: list[int]) -> int:
        """Removes the least loaded member from the heap and returns it. `back` returns it to the heap."""
        if self._heap is None:
            self._heap = JavaHeap(count, numbered=False)
            for member in self.members:
                self._heap.add(member)
        return self._heap.poll()

    def back(self, member: int) -> None:
        if self._heap is not None:
            self._heap.add(member)

    def drop_heap(self) -> None:
        """Drops the heap, because counts have changed without it."""
        self._heap = None


class _Sticky:
    def __init__(
        self,
        members: Sequence[StreamsMember],
        tasks: Sequence[BrokerTask],
        stateful: Sequence[BrokerTask],
        standbys: int,
        *,
        offsets_count: bool,
    ) -> None:
        self._tasks, self._stateful, self._standbys = tasks, stateful, standbys
        self._offsets_count = offsets_count
        self._count = [0] * len(members)
        self._active: list[set[BrokerTask]] = [set() for _ in members]
        self._copies: list[set[BrokerTask]] = [set() for _ in members]
        self._processes, self._process_of = _processes(members, computed=offsets_count)
        self._load = [0.0] * len(self._processes)
        self._ran = {task: m for m, member in enumerate(members) for task in member.active}
        self._kept = _kept_by(members, offsets_count=offsets_count)
        self._active_share = _Share(len(tasks), len(members))
        self._share = _Share(len(tasks) + len(stateful) * standbys, len(members))

    def assign(self) -> Copies:
        self._assign_actives()
        if self._standbys:
            self._assign_standbys()
        return Copies(tuple(map(frozenset, self._active)), tuple(map(frozenset, self._copies)))

    def _assign_actives(self) -> None:
        left = sorted(self._tasks, key=lambda task: (task[1], task[0]))
        left = [task for task in left if not self._is_kept(task, self._ran.get(task))]
        left = [task for task in left if not self._is_kept(task, self._least_loaded(self._kept.get(task, ())))]
        queue = self._queue()
        for task in sorted(left):
            process = queue.poll()
            self._active_share.now_has(self._give(process, task, self._active))
            queue.add(process)

    def _is_kept(self, task: BrokerTask, member: int | None) -> bool:
        if member is None or self._count[member] >= self._active_share.each:
            return False
        count = self._add(member, task, self._active)
        self._active_share.now_has(count)
        self._share.now_has(count)
        return True

    def _assign_standbys(self) -> None:
        rest: list[tuple[BrokerTask, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task[1], task[0]), reverse=True):
            missing = self._standbys
            while missing and self._copy_is_kept(task):
                missing -= 1
            if missing:
                rest.append((task, missing))
        queue = self._queue()
        for task, missing in sorted(rest, key=lambda entry: entry[0], reverse=True):
            for _ in range(missing):
                if not self._copy_to_least(queue, task):
                    break

    def _copy_is_kept(self, task: BrokerTask) -> bool:
        """Places a copy with the process that ran the task, else with one that had a copy. Returns False if neither is
        possible."""
        ran = self._ran.get(task)
        if ran is not None and not self._holds(ran, task) and self._count[ran] < self._share.each:
            self._share.now_has(self._add(ran, task, self._copies))
            return True
        kept = self._least_loaded(self._kept.get(task, ()), task)
        if kept is not None and self._count[kept] < self._share.each:
            self._share.now_has(self._add(kept, task, self._copies))
            return True
        return False

    def _copy_to_least(self, queue: JavaHeap, task: BrokerTask) -> bool:
        """Places a copy on the least loaded process without one. The processes taken from the heap return to it in
        reverse order, as Java's recursion does."""
        passed = []
        placed = False
        while len(queue) and not placed:
            process = queue.poll()
            passed.append(process)
            if task not in self._processes[process].tasks:
                self._give(process, task, self._copies)
                placed = True
        for process in reversed(passed):
            queue.add(process)
        return placed

    def _least_loaded(self, members: Sequence[int], task: BrokerTask | None = None) -> int | None:
        """Returns the first of the members that had a copy, or a later one if both its process and itself have less
        load. With a task: of those whose process does not have it. Up to 4.3, None if the first one's process has it,
        even if another member could take it."""
        if self._offsets_count and task is not None:
            members = [member for member in members if not self._holds(member, task)]
        if not members:
            return None
        best = members[0]
        for member in members[1:]:
            has_less_load = self._load_of(member) < self._load_of(best) and self._count[member] < self._count[best]
            if has_less_load and (task is None or not self._holds(member, task)):
                best = member
        return None if task is not None and self._holds(members[0], task) else best

    def _give(self, process: int, task: BrokerTask, to: list[set[BrokerTask]]) -> int:
        """Gives the task to the least loaded member of a process. Returns how many tasks that member has now."""
        instance = self._processes[process]
        member = instance.members[0] if len(instance.members) == 1 else instance.least(self._count)
        count = self._put(member, task, to)
        if len(instance.members) > 1:
            instance.back(member)
        self._share.now_has(count)
        return count

    def _add(self, member: int, task: BrokerTask, to: list[set[BrokerTask]]) -> int:
        count = self._put(member, task, to)
        self._processes[self._process_of[member]].drop_heap()
        return count

    def _put(self, member: int, task: BrokerTask, to: list[set[BrokerTask]]) -> int:
        process = self._process_of[member]
        instance = self._processes[process]
        instance.tasks.add(task)
        instance.count += 1
        self._load[process] = instance.load
        to[member].add(task)
        self._count[member] += 1
        return self._count[member]

    def _queue(self) -> JavaHeap:
        queue = JavaHeap(self._load, numbered=False)
        for process in range(len(self._processes)):
            queue.add(process)
        return queue

    def _holds(self, member: int, task: BrokerTask) -> bool:
        return task in self._processes[self._process_of[member]].tasks

    def _load_of(self, member: int) -> float:
        return self._load[self._process_of[member]]


def _kept_by(members: Sequence[StreamsMember], *, offsets_count: bool) -> dict[BrokerTask, list[int]]:
    """Returns the members with a copy of each task. If offsets count, those that keep a standby come first, then those
    that only report an offset, and of either the one with the largest offset; others in the order of the members."""
    ranked: dict[BrokerTask, list[tuple[bool, int, int]]] = {}
    for m, member in enumerate(members):
        reported = member.offsets if offsets_count else {}
        for task in member.standby | reported.keys():
            ranked.setdefault(task, []).append((task not in member.standby, -reported.get(task, 0), m))
    return {task: [m for _, _, m in sorted(entries)] for task, entries in ranked.items()}


def _processes(members: Sequence[StreamsMember], *, computed: bool) -> tuple[list[_Process], list[int]]:
    """Returns the processes in Java's order, and the index of each member's process. `computed`: the broker fills its
    table by computeIfAbsent, as from Kafka 4.4 on."""
    of: dict[str, list[int]] = {}
    for m, member in enumerate(members):
        of.setdefault(member.process_id, []).append(m)
    names, number_of = [*of], {name: number for number, name in enumerate(of)}
    hashes, calls = [string_hash(name) for name in names], [number_of[member.process_id] for member in members]
    order = computed_map_order(hashes, calls, len(calls)) if computed else hash_map_order(hashes, len(calls))
    ordered = [names[i] for i in order]
    processes, process_of = [], [0] * len(members)
    for number, name in enumerate(ordered):
        mine = of[name]
        order = hash_map_order([string_hash(members[m].member_id) for m in mine], _LEAST_BUCKETS)
        processes.append(_Process([mine[i] for i in order]))
        for m in mine:
            process_of[m] = number
    return processes, process_of
