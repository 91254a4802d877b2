"""The standby rule of the policy `streams-ha`: standbys stay where they are.

A replica is kept on a process that has its state, as long as a task's replicas are on different labels (the configured
client tags, or else racks). New replicas go to unused labels first, then to processes with state, then to the lightest
process.
"""

from collections.abc import Sequence

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing.placement import Placement, anywhere, is_wanted, uneven
from bellwether_kafka.assignors.streams.placing.standby import LabelRule, Labels, fill_lightest, task_hashes

RACK = "client.rack"

LACKING_SHOWN = 3


class KeepingRule(LabelRule):
    """KIP-708's spread over tags, or KIP-925's over racks, starting from existing state."""

    def __init__(self, view: StreamsView, configs: AssignmentConfigs, lags: TaskLags) -> None:
        labels, keys = spread_by(view, configs)
        self._by_tags = bool(configs.rack_aware_assignment_tags)
        self._lags = lags
        self._plain = not any(key in keys for mine in labels for key, _ in mine)
        super().__init__(labels, keys, task_hashes(view))

    def assign(self, place: Placement, tasks: Sequence[int], replicas: int) -> None:
        self._keep(place, tasks, replicas)
        kept = {}
        if not self._plain:
            kept = {task: near for task in tasks if (near := self._clear_repeated(place, task))}
            self.spread(place, [task for task in tasks if len(place.standbys[task]) < replicas], replicas)
            self._undo_useless(place, kept)
        left = {task: replicas - len(place.standbys[task]) for task in tasks}
        fill_lightest(place, left)

    def _keep(self, place: Placement, tasks: Sequence[int], replicas: int) -> None:
        """Keeps replicas where the state is. If more processes have caught up than there should be replicas, those on
        the least loaded processes stay, as long as labels remain equally diverse."""
        with_surplus = []
        for task in tasks:
            active = place.active[task]
            near = [(lag, process) for lag, process in self._lags.holders(task) if process != active]
            for number, (lag, process) in enumerate(near):
                if number < replicas or lag <= self._lags.acceptable_lag:
                    place.add_standby(task, process)
            if len(place.standbys[task]) > replicas:
                with_surplus.append(task)
        for task in with_surplus:
            while len(place.standbys[task]) > replicas:
                place.remove_standby(task, self._least_wanted(place, task))

    def _least_wanted(self, place: Placement, task: int) -> int:
        copies = place.standbys[task]
        holders = (place.active[task], *copies)

        def key(process: int) -> tuple[int, float, int]:
            rest = self.diversity(p for p in holders if p != process)
            return (rest, place.load[process] / place.capacity[process], process)

        return max(copies, key=key)

    def _clear_repeated(self, place: Placement, task: int) -> list[int]:
        """Removes replicas on labels that are already used. If there are any, returns all replicas from before, else
        []."""
        before = list(place.standbys[task])
        for process in before:
            place.remove_standby(task, process)
        left = list(before)
        while left:
            excluded = self.used_labels(place, task)
            process = next((p for p in left if not self.is_used(excluded, p)), -1)
            if process < 0:
                return before
            left.remove(process)
            place.add_standby(task, process)
        return []

    def _undo_useless(self, place: Placement, kept: dict[int, list[int]]) -> None:
        """Restores replicas that made way for others if that did not make labels more diverse."""
        for task, before in kept.items():
            active, copies = place.active[task], list(place.standbys[task])
            if self.diversity((active, *before)) < self.diversity((active, *copies)):
                continue
            for process in copies:
                place.remove_standby(task, process)
            for process in before:
                place.add_standby(task, process)

    def balance(self, place: Placement) -> None:
        """Moves standbys for balance: first to processes with their state, then from the most to the least loaded
        process, so that no process both gives and takes."""
        if not uneven(place):
            return
        kept: list[set[int]] = [set() for _ in range(place.size)]
        for task, copies in place.standbys.items():
            for process in copies:
                kept[process].add(task)
        for process in _by_load(place):
            self._take_warm(place, kept, process)
        while self._level_one(place, kept):
            pass

    def _take_warm(self, place: Placement, kept: list[set[int]], process: int) -> None:
        state = self._lags.state_of(process)
        for task in sorted(state, key=lambda t: (state[t], t)):
            if place.holds(process, task):
                continue
            giver = max(place.standbys[task], key=lambda p: place.load[p] / place.capacity[p], default=None)
            if giver is not None and is_wanted(place, giver, process) and self._may(place, giver, process, task):
                _move(place, kept, task, giver, process)

    def _level_one(self, place: Placement, kept: list[set[int]]) -> bool:
        """Moves one standby from the most loaded to the least loaded process possible. Returns False if none may
        move."""
        order = _by_load(place)
        for source in reversed(order):
            for destination in order:
                if not is_wanted(place, source, destination):
                    break
                here, there = self._lags.state_of(source), self._lags.state_of(destination)
                movable = (t for t in kept[source] if self._may(place, source, destination, t))
                task = min(movable, key=lambda t: (t not in there, t in here, t), default=None)
                if task is not None:
                    _move(place, kept, task, source, destination)
                    return True
        return False

    def _may(self, place: Placement, source: int, destination: int, task: int) -> bool:
        if place.holds(destination, task) or not self.may_move(source, destination):
            return False
        return self._by_tags or self._plain or self.may_move_task(source, destination, task, place)

    def may_move(self, source: int, destination: int) -> bool:
        """Tags bind as in Kafka; racks are checked per task."""
        return super().may_move(source, destination) if self._by_tags else anywhere(source, destination)


def _by_load(place: Placement) -> list[int]:
    """Returns the processes, the least loaded first."""
    return sorted(range(place.size), key=lambda p: place.load[p] / place.capacity[p])


def _move(place: Placement, kept: list[set[int]], task: int, source: int, destination: int) -> None:
    place.remove_standby(task, source)
    place.add_standby(task, destination)
    kept[source].remove(task)
    kept[destination].add(task)


def spread_by(view: StreamsView, configs: AssignmentConfigs) -> tuple[list[Labels], tuple[str, ...]]:
    """Returns the labels of each process and the keys to spread over: the configured client tags, or else its rack."""
    if configs.rack_aware_assignment_tags:
        return [process.tags for process in view.processes], configs.rack_aware_assignment_tags
    return [((RACK, process.rack),) if process.rack else () for process in view.processes], (RACK,)


def unsent_tags(view: StreamsView, configs: AssignmentConfigs) -> tuple[str, ...]:
    """Returns a note for each key of rack.aware.assignment.tags that not all processes send, as after a typing error:
    in Java each member has the key beside its tags, and does not start without one."""
    sent = sorted({key for process in view.processes for key, _ in process.tags})
    notes = []
    for tag in configs.rack_aware_assignment_tags:
        lacking = [str(process.process_id) for process in view.processes if tag not in dict(process.tags)]
        if not lacking:
            continue
        more = f" and {len(lacking) - LACKING_SHOWN} more" if len(lacking) > LACKING_SHOWN else ""
        some = f"not every process (not {', '.join(lacking[:LACKING_SHOWN])}{more})"
        who = "no process" if len(lacking) == len(view.processes) else some
        notes.append(
            f"rack.aware.assignment.tags spreads copies over the client tag {tag}, which {who} sends; tags that are"
            f" sent: {', '.join(sent) or 'none'}"
        )
    return tuple(notes)


def rack_disagreement(view: StreamsView, configs: AssignmentConfigs) -> str | None:
    """Returns KIP-925's warning, None if it does not apply: client.rack and tags are both set, but no tag equals
    client.rack on every process."""
    tags = configs.rack_aware_assignment_tags
    placed = [process for process in view.processes if process.rack]
    if not tags or not placed:
        return None
    wrong = {key: [p for p in placed if dict(p.tags).get(key) != p.rack] for key in tags}
    key, others = min(wrong.items(), key=lambda item: len(item[1]))
    if not others:
        return None
    value = dict(others[0].tags).get(key)
    return (
        f"client.rack and client tags disagree: process {others[0].process_id} is in rack {others[0].rack} and has "
        f"{f'{key}={value}' if value else f'no tag {key}'}; standbys follow the tags"
    )
