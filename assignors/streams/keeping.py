"""Standbys that stay where they are: the rule of the policy `streams-ha`.

A replica is kept on a process that has its state, as long as replicas of a task are on different labels (the configured
client tags, or else racks); then new ones are placed on unused labels; then wherever state is; then on the lightest
process.
"""

from collections.abc import Sequence

from assignors.streams.lags import Lags
from assignors.streams.model import AssignmentConfigs, StreamsView
from assignors.streams.placement import Placement, anywhere, balance_standbys
from assignors.streams.standby import LabelRule, Labels, fill_lightest, task_hashes

RACK = "client.rack"


class KeepingRule(LabelRule):
    """KIP-708's spread over tags, KIP-925's over racks, starting from the state that there is."""

    def __init__(self, view: StreamsView, configs: AssignmentConfigs, lags: Lags) -> None:
        keys = configs.rack_aware_assignment_tags or (RACK,)
        self._by_tags = bool(configs.rack_aware_assignment_tags)
        self._lags = lags
        labels = [process.tags for process in view.processes] if self._by_tags else rack_labels(view)
        self._plain = not any(key in keys for mine in labels for key, _ in mine)
        super().__init__(labels, keys, task_hashes(view))

    def assign(self, place: Placement, tasks: Sequence[int], replicas: int) -> None:
        for task in tasks:
            self._keep(place, task, replicas, spread=True)
        if self._plain:
            left = {task: replicas - len(place.standbys[task]) for task in tasks}
        else:
            left = self.spread(place, tasks, replicas)
        for task in left:
            self._keep(place, task, replicas, spread=False)
        fill_lightest(place, {task: replicas - len(place.standbys[task]) for task in left})

    def _keep(self, place: Placement, task: int, replicas: int, *, spread: bool) -> None:
        """Keeps up to so many replicas where the state is, only on unused labels if they are to be spread."""
        copies, active = place.standbys[task], place.active[task]
        excluded = self.used_labels(place, task) if spread and not self._plain else set()
        for _, process in self._lags.holders(task):
            if len(copies) >= replicas:
                return
            if process == active or process in copies or (excluded and self.is_used(excluded, process)):
                continue
            place.add_standby(task, process)
            if excluded:
                excluded = self.exclude(excluded, process, 1 + len(copies))

    def balance(self, place: Placement) -> None:
        """Moves standbys for balance, first to where their state is."""

        def to_state(source: int, destination: int, task: int) -> bool:
            return task in self._lags.state_of(destination) and self._may_move_one(source, destination, task, place)

        def to_any(source: int, destination: int, task: int) -> bool:
            return self._may_move_one(source, destination, task, place)

        balance_standbys(place, self.may_move, to_state)
        balance_standbys(place, self.may_move, to_any)

    def may_move(self, source: int, destination: int) -> bool:
        """Tags bind as they do in Kafka; racks are looked at task by task."""
        return super().may_move(source, destination) if self._by_tags else anywhere(source, destination)

    def _may_move_one(self, source: int, destination: int, task: int, place: Placement) -> bool:
        return self._by_tags or self._plain or self.may_move_task(source, destination, task, place)


def rack_labels(view: StreamsView) -> list[Labels]:
    """One label per process that has a rack."""
    return [((RACK, process.rack),) if process.rack else () for process in view.processes]


def rack_disagreement(view: StreamsView, configs: AssignmentConfigs) -> str | None:
    """KIP-925's warning: both client.rack and tags are set, but no tag says the same as client.rack everywhere."""
    tags = configs.rack_aware_assignment_tags
    placed = [process for process in view.processes if process.rack]
    if not tags or not placed:
        return None
    wrong = {key: [p for p in placed if dict(p.tags).get(key) != p.rack] for key in tags}
    key, others = min(wrong.items(), key=lambda item: len(item[1]))
    if not others:
        return None
    said = dict(others[0].tags).get(key)
    return (
        f"client.rack and client tags disagree: process {others[0].process_id} is in rack {others[0].rack} and has "
        f"{f'{key}={said}' if said else f'no tag {key}'}; standbys follow the tags"
    )
