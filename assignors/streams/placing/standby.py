"""Standby replicas: by load (the default), spread over client tags (KIP-708), or spread over racks.

Every rule takes the lightest suitable process by (load / capacity, process). Whenever Kafka queries its
ConstrainedPrioritySet here, the priorities are current, so heaps of (load, process) give the same answers
(docs/internals/streams.md#highavailabilitytaskassignor).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsView
from bellwether_kafka.assignors.streams.placing.placement import Placement, Standbys, anywhere, balance_standbys
from bellwether_kafka.protocol.primitives import hash_order, task_hash

Labels = tuple[tuple[str, str], ...]


class StandbyRule:
    """The default rule: the lightest processes without a copy, as many as required (DefaultStandbyTaskAssignor)."""

    def assign(self, place: Placement, tasks: Sequence[int], replicas: int) -> None:
        fill_lightest(place, dict.fromkeys(tasks, replicas))

    def balance(self, place: Placement) -> None:
        balance_standbys(place, self.may_move)

    def may_move(self, source: int, destination: int) -> bool:
        """Returns whether balancing may move any standby from `source` to `destination`."""
        return anywhere(source, destination)


class LabelRule(StandbyRule):
    """Places a task's replicas on processes whose labels differ from those already used, then on the lightest ones.
    `labels[p]` are the (key, value) pairs of process p; only `keys` count for spreading. With client tags this is
    KIP-708 (ClientTagAwareStandbyTaskAssignor); with one label per process, its rack, it is the spread that KIP-925
    describes."""

    def __init__(self, labels: Sequence[Labels], keys: Sequence[str], hashes: Sequence[int]) -> None:
        self._labels = [dict(pairs) for pairs in labels]
        self._counted = [frozenset(pair for pair in mine.items() if pair[0] in keys) for mine in self._labels]
        self._hashes = hashes
        values: dict[str, set[str]] = defaultdict(set)
        for pairs in self._labels:
            for key, value in pairs.items():
                values[key].add(value)
        self._values = {key: len(of_key) for key, of_key in values.items()}

    def assign(self, place: Placement, tasks: Sequence[int], replicas: int) -> None:
        left = self.spread(place, tasks, replicas)
        order = hash_order(list(tasks), self._hashes) if left else []
        fill_lightest(place, {task: left[task] for task in order if task in left})

    def spread(self, place: Placement, tasks: Sequence[int], replicas: int) -> dict[int, int]:
        """Adds replicas on unused labels until tasks have `replicas`. Returns how many are still to be placed, by
        task."""
        heaps = _heaps_by_label(place, self._counted)
        left: dict[int, int] = {}
        for task in tasks:
            missing = self._spread(place, heaps, task, replicas)
            if missing:
                left[task] = missing
        return left

    def _spread(self, place: Placement, heaps: "_Heaps", task: int, replicas: int) -> int:
        """Adds replicas of the task on unused labels until it has `replicas`. Returns how many found no place."""
        excluded = self.used_labels(place, task)
        chosen: list[int] = []
        while len(place.standbys[task]) < replicas:
            holder = _poll_labels(place, heaps, task, excluded)
            if holder is None:
                break
            place.add_standby(task, holder)
            chosen.append(holder)
            excluded = self.exclude(excluded, holder, 1 + len(place.standbys[task]))
        for process in chosen:
            heappush(heaps[self._counted[process]], (place.load[process] / place.capacity[process], process))
        return replicas - len(place.standbys[task])

    def used_labels(self, place: Placement, task: int) -> set[tuple[str, str]]:
        """Returns the labels that the next replica should avoid."""
        excluded: set[tuple[str, str]] = set()
        for used, process in enumerate((place.active[task], *place.standbys[task]), start=1):
            excluded = self.exclude(excluded, process, used)
        return excluded

    def is_used(self, excluded: set[tuple[str, str]], process: int) -> bool:
        return not excluded.isdisjoint(self._counted[process])

    def exclude(self, excluded: set[tuple[str, str]], process: int, used: int) -> set[tuple[str, str]]:
        """Returns the labels to avoid after `process` became holder number `used`. A key whose values are all in use
        can no longer separate processes, and stops counting."""
        for key, value in self._counted[process]:
            if self._values[key] > used:
                excluded = excluded | {(key, value)}
            else:
                excluded = {pair for pair in excluded if pair[0] != key}
        return excluded

    def diversity(self, processes: Iterable[int]) -> int:
        """Returns how many different labels these processes have."""
        return len(set().union(*(self._counted[process] for process in processes)))

    def may_move(self, source: int, destination: int) -> bool:
        theirs = self._labels[destination]
        return all(theirs.get(key) == value for key, value in self._labels[source].items())

    def may_move_task(self, source: int, destination: int, task: int, place: Placement) -> bool:
        """Returns whether the holders would have at least as many different labels after the move as before."""
        others: set[tuple[str, str]] = set()
        for process in (place.active[task], *place.standbys[task]):
            if process not in (source, destination):
                others.update(self._labels[process].items())
        after = others.union(self._labels[destination].items())
        return len(after) >= len(others.union(self._labels[source].items()))


_Heaps = dict[frozenset[tuple[str, str]], list[tuple[float, int]]]


def tag_rule(view: StreamsView, configs: AssignmentConfigs) -> StandbyRule:
    """Returns the rule that Kafka uses: by tags if any are configured."""
    if not configs.rack_aware_assignment_tags:
        return StandbyRule()
    labels = [process.tags for process in view.processes]
    return LabelRule(labels, configs.rack_aware_assignment_tags, task_hashes(view))


def task_hashes(view: StreamsView) -> list[int]:
    table = view.tasks
    return [task_hash(s, p) for s, p in zip(table.subtopology.tolist(), table.partition.tolist(), strict=True)]


def missing_standbys(view: StreamsView, standbys: Standbys, tasks: Sequence[int], replicas: int) -> tuple[str, ...]:
    """Returns a sentence if some of these tasks have fewer than `replicas` standbys, else ()."""
    short = [task for task in tasks if len(standbys.get(task, ())) < replicas]
    if not short:
        return ()
    first = view.tasks.task_id(short[0])
    return (
        f"{len(short)} tasks have fewer than {replicas} standbys, because there are too few processes (first: {first})",
    )


def fill_lightest(place: Placement, wanted: dict[int, int]) -> None:
    """Gives each task, in order, up to the wanted number of standbys, on the lightest processes without a copy of
    it."""
    if not any(wanted.values()):
        return
    load, capacity, active, standbys = place.load, place.capacity, place.active, place.standbys
    heap = [(tasks / room, p) for p, (tasks, room) in enumerate(zip(load, capacity, strict=True))]
    heapify(heap)
    for task, replicas in wanted.items():
        holder, copies = active[task], standbys[task]
        for _ in range(replicas):
            lightest = heap[0][1]
            if lightest != holder and lightest not in copies:
                copies.append(lightest)
                load[lightest] += 1
                heapreplace(heap, (load[lightest] / capacity[lightest], lightest))
                continue
            without_copy = _poll_without_copy(place, heap, task)
            if without_copy is None:
                break
            place.add_standby(task, without_copy)
            heappush(heap, (load[without_copy] / capacity[without_copy], without_copy))


def _poll_without_copy(place: Placement, heap: list[tuple[float, int]], task: int) -> int | None:
    """Removes the lightest process without a copy from the heap and returns it."""
    rejected = []
    polled = None
    while heap:
        entry = heappop(heap)
        if not place.holds(entry[1], task):
            polled = entry[1]
            break
        rejected.append(entry)
    for entry in rejected:
        heappush(heap, entry)
    return polled


def _heaps_by_label(place: Placement, labels: Sequence[frozenset[tuple[str, str]]]) -> _Heaps:
    """Returns one heap per distinct set of labels, because labels exclude whole heaps."""
    heaps: _Heaps = defaultdict(list)
    for process, mine in enumerate(labels):
        heaps[mine].append((place.load[process] / place.capacity[process], process))
    for heap in heaps.values():
        heapify(heap)
    return heaps


def _poll_labels(place: Placement, heaps: _Heaps, task: int, excluded: set[tuple[str, str]]) -> int | None:
    """Removes the lightest process without a copy and without excluded labels from its heap and returns it."""
    best: tuple[float, int] | None = None
    home: list[tuple[float, int]] = []
    for labels, heap in heaps.items():
        if not excluded.isdisjoint(labels):
            continue
        entry = _peek_without_copy(place, heap, task)
        if entry is not None and (best is None or entry < best):
            best, home = entry, heap
    if best is None:
        return None
    if home[0] == best:
        heappop(home)
    else:
        home.remove(best)
        heapify(home)
    return best[1]


def _peek_without_copy(place: Placement, heap: list[tuple[float, int]], task: int) -> tuple[float, int] | None:
    if heap and not place.holds(heap[0][1], task):
        return heap[0]
    rejected = []
    peeked = None
    while heap:
        if not place.holds(heap[0][1], task):
            peeked = heap[0]
            break
        rejected.append(heappop(heap))
    for entry in rejected:
        heappush(heap, entry)
    return peeked
