"""The policy `load-aware` for Streams tasks: `streams-ha` with even load per core instead of even counts.

A task weighs as much as its source partitions. A process has as many cores as its client tag `cores` states, else as
many as it has threads. Tasks stay where they are unless a process exceeds the dead band; the count-balanced placement
of `streams-ha` competes with the kept one under the same score, as for consumers. Warm-ups, standbys and stateless
tasks are those of `streams-ha`; a target that moves a stateful task is reached through KIP-441's warm-ups.
"""

from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.consumer import LoadAware
from bellwether_kafka.assignors.shared import (
    NOBODY,
    Balancer,
    BoolArray,
    ClusterView,
    FloatArray,
    IntArray,
    LongArray,
    Rules,
    Terms,
    excess,
)
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing import RackOptimiser
from bellwether_kafka.assignors.streams.policies.streams_ha import StreamsHighAvailability

CORES_TAG = "cores"


class StreamsLoadAware(StreamsHighAvailability):
    """StreamsHighAvailability that places active tasks by weight."""

    def __init__(
        self,
        view: StreamsView,
        configs: AssignmentConfigs,
        racks: RackOptimiser | None,
        rules: Rules,
        weight: FloatArray,
    ) -> None:
        super().__init__(view, configs, racks)
        self._rules = rules
        self._weight = weight
        self._cores = cores(view)

    def _place_actives(self, tasks: IntArray, owner: IntArray, others: LongArray, rack_costs: tuple[int, int]) -> None:  # noqa: ARG002
        """As in `streams-ha`, but by weight. Tasks are not exchanged for racks afterwards, because that would ignore
        weights; the balancer considers both."""
        if not len(tasks):
            return
        base = np.zeros(self.view.size, dtype=np.float64)
        if others.any():
            stateful = self.place.owners(self.stateful)
            base += np.bincount(stateful, self._weight[self.stateful], self.view.size)
        items = Items(self._weight[tasks], self._cores, base, self._rules, terms_of(self.view, tasks))
        kept = owner[tasks].copy()
        before = kept.copy()
        orphans = np.flatnonzero(kept == NOBODY)
        if len(orphans):
            items.of(kept).deal(orphans)
        even = owner.copy()
        self._even_out(tasks, even, others)
        counted = even[tasks]
        candidates = [kept, items.improved(kept), counted, items.improved(counted)]
        best = min(candidates, key=lambda plan: items.score(before, plan))
        owner[tasks] = best
        self.place.place_actives(tasks, best)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Tasks as weighted items on processes. `base` is the load that these have in addition."""

    weight: FloatArray
    capacity: FloatArray
    base: FloatArray
    rules: Rules
    terms: Terms

    def of(self, owner: IntArray) -> Balancer:
        return Balancer(self.weight, owner, self.capacity, self.terms, self.base)

    def improved(self, owner: IntArray) -> IntArray:
        changed = owner.copy()
        self.of(changed).run(self.rules)
        return changed

    def score(self, before: IntArray, owner: IntArray) -> tuple[float, int]:
        """Returns a score, lower is better: first overload, load across racks and the charge for moving; then the
        number of moves."""
        load = np.bincount(owner, self.weight, len(self.capacity)) + self.base
        over = excess(load, self.capacity, self.weight, owner, self.rules.band)
        price = self.terms.price[self.terms.item, self.terms.place[owner]]
        remote = float((self.weight * (price > 0)).sum() / max(1e-9, float(self.weight.sum())))
        moved = int(((before != NOBODY) & (before != owner)).sum())
        return over + remote + (self.rules.moving_charge if moved else 0.0), moved


def terms_of(view: StreamsView, tasks: IntArray) -> Terms:
    """Returns terms in which a task costs on a process as many of its source partitions as have no replica in the
    process's rack."""
    table = view.tasks
    racks, place = np.unique(view.rack, return_inverse=True)
    item = table.source_signature[tasks].astype(np.int32)
    kinds = len(table.source_remote)
    price = np.zeros((max(1, kinds), len(racks)), dtype=np.int32)
    if table.racks_known:
        with_brokers = racks >= 0
        price[:, with_brokers] = table.source_remote[:, racks[with_brokers]]
    return Terms(item, place.reshape(-1).astype(np.int32), np.ones(price.shape, dtype=np.bool_), price)


def cores(view: StreamsView) -> FloatArray:
    """Returns the cores of each process by its tag, else its threads."""
    per_process = view.capacity.astype(np.float64)
    for row, process in enumerate(view.processes):
        try:
            text = float(dict(process.tags).get(CORES_TAG, ""))
        except ValueError:
            continue
        if np.isfinite(text) and text > 0:
            per_process[row] = text
    return per_process


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskWeights:
    """The weight of each task, with mean 1, and the error of these weights as in `Weights`; or the reason why there are
    none."""

    of: FloatArray | None = None
    error: float | None = None
    reason: str = ""


def task_weights(view: StreamsView, load: LoadAware) -> TaskWeights:
    """Returns the weights of tasks: as much as their source partitions weigh together."""
    if view.cluster is None or not view.tasks.size:
        return TaskWeights(reason="partitions are not known")
    wanted, reads = _sources(view, view.cluster)
    weight, reason = load.weights.dense(view.cluster, wanted)
    if reason:
        return TaskWeights(reason=reason)
    total = np.zeros(view.tasks.size, dtype=np.float64)
    for inside, flats in reads:
        np.add.at(total, inside, weight[flats])
    return TaskWeights(of=total, error=load.weights.error_in(view.cluster, wanted))


def _sources(view: StreamsView, cluster: ClusterView) -> tuple[BoolArray, list[tuple[LongArray, LongArray]]]:
    """Returns which partitions tasks read, and (tasks, partition of each) for each source topic."""
    table = view.tasks
    wanted = np.zeros(cluster.partition_total, dtype=np.bool_)
    reads: list[tuple[LongArray, LongArray]] = []
    for subtopology in table.subtopologies:
        mine = np.flatnonzero(table.subtopology == subtopology.id)
        for topic in subtopology.sources:
            t = cluster.index.get(topic)
            if t is None:
                continue
            inside = mine[table.partition[mine] < cluster.counts[t]]
            flats = cluster.first[t] + table.partition[inside]
            wanted[flats] = True
            reads.append((inside, flats))
    return wanted, reads


def assign_load_aware(
    view: StreamsView, configs: AssignmentConfigs, racks: RackOptimiser | None, load: LoadAware
) -> StreamsPlan:
    """Returns a plan with even load if weights are known, else that of `streams-ha`."""
    weights = task_weights(view, load)
    if weights.of is None:
        return StreamsHighAvailability(view, configs, racks).assign()
    rules = load.rules.for_error(weights.error, view.size)
    plan = StreamsLoadAware(view, configs, racks, rules, weights.of).assign()
    return replace(plan, weights=load.weights.source or "measured")
