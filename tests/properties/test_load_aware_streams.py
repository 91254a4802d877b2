"""`load-aware` for Streams tasks: never worse than count balance by its own score, bounded, deaf to noise, and at rest
once the load is."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import LoadAware
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, Weights
from bellwether_kafka.assignors.streams import STOCK, TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.placing import previous_owners
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE, assign_streams
from bellwether_kafka.assignors.streams.policies.load_aware import Items, cores, task_weights, terms_of
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.coordinator.triggers import tasks_to_move
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams import NOW_MS, SHOP, Thread, group
from tests.kit.streams_views import Application, Instance, process_id
from tests.seeds import seeds

CONFIGS = AssignmentConfigs(max_warmup_replicas=100)
RACKS = ("az0", "az1", "az2")
REBALANCES_TO_REST = 40
LOAD_REQUESTS = 4  # how many rebalances uneven load may ask for until it is even
PAUSE_MS = 60_000


def viewed(application: Application) -> StreamsView:
    """With partitions, without which no task has a weight."""
    counts = {f"t{g}": [[None]] * count for g, (count, _) in enumerate(application.subtopologies)}
    return replace(application.view(), cluster=ClusterView.of(counts))


def weighed(application: Application, sizes: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> LoadAware:
    names = [TopicPartition(f"t{g}", p) for g, (n, _) in enumerate(application.subtopologies) for p in range(n)]
    return LoadAware(Weights(dict(zip(names, sizes.tolist(), strict=True))))


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_tasks_are_placed_no_worse_than_by_counts(seed: int, cored: bool) -> None:
    rng = np.random.default_rng(seed)
    processes, tasks = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    owner = rng.integers(-1, processes, tasks)
    instances = [
        Instance(
            process_id(n),
            capacity=int(rng.integers(1, 4)),
            tags={"cores": str(int(rng.integers(1, 5)))} if cored else {},
            active=np.flatnonzero(owner == n).tolist(),
        )
        for n in range(processes)
    ]
    application = Application([(tasks, None)], instances)
    view = viewed(application)
    load = weighed(application, np.exp(rng.normal(0, rng.uniform(0, 2), tasks)))
    plan = assign_streams(view, CONFIGS, "load-aware", load=load)
    counted = assign_streams(view, CONFIGS, "streams-ha")
    assert validate_plan(view, plan) == ()
    weights = task_weights(view, load)
    assert weights.of is not None, weights.reason
    before = previous_owners(view)
    items = Items(
        weights.of, cores(view), np.zeros(processes), load.rules, terms_of(view, np.arange(tasks, dtype=np.int32))
    )
    assert items.score(before, plan.active)[0] <= items.score(before, counted.active)[0] + 1e-9

    def moved(plan: StreamsPlan) -> int:
        return int(((before != NOBODY) & (before != plan.active)).sum())

    assert moved(plan) <= moved(counted) + load.rules.limit(int((before != NOBODY).sum()))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 1_000]))
def test_ten_rebalances_of_noise_move_no_task(seed: int, end_sum: int | None) -> None:
    """A settled application, stateless or stateful, whose tasks' loads each wander by up to a tenth either way."""
    rng = np.random.default_rng(seed)
    processes = int(rng.integers(2, 6))
    tasks = int(rng.integers(8 * processes, 16 * processes))
    application = Application([(tasks, end_sum)], [Instance(process_id(n)) for n in range(processes)])
    loads = np.exp(rng.normal(0, rng.uniform(0, 1.5), tasks))

    def plan(noise: float) -> StreamsPlan:
        seen = loads * (1 + rng.uniform(-noise, noise, tasks))
        placed = assign_streams(viewed(application), CONFIGS, "load-aware", load=weighed(application, seen))
        application.settle(placed)
        return placed

    for _ in range(12):
        settled = plan(0.0)
    assert not settled.probing
    for _ in range(10):
        moved = plan(0.1)
        assert moved.active.tolist() == settled.active.tolist()
        assert not moved.probing


class WeighedShop:
    """The application SHOP on random processes in racks, led by `load-aware`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        partitions = random.choice([4, 6, 12, 20])
        counts = dict.fromkeys((*SHOP.source_topics, "shop-totals-changelog"), partitions)
        self.cluster = ClusterView.of({t: [[random.choice(RACKS)] for _ in range(n)] for t, n in counts.items()})
        self.ends = EndOffsets({"shop-totals-changelog": np.full(partitions, 1_000, dtype=np.int64)}, NOW_MS)
        self.configs = AssignmentConfigs(
            num_standby_replicas=random.choice([0, 1]), acceptable_recovery_lag=random.choice([0, 10_000])
        )
        self.threads = [
            Thread(f"{process}-{thread}", process, rack=RACKS[process % 3])
            for process in range(1, random.randint(2, 5) + 1)
            for thread in range(random.choice([1, 1, 2, 3]))
        ]
        self.weights = {
            TopicPartition(topic, p): random.choice([10, 50, 100, 1000]) * random.random()
            for topic in SHOP.source_topics
            for p in range(partitions)
        }
        self.error = random.choice([None, 0.003])
        self.assignors = replace(STOCK, assign=self._assign)
        self.memory, self.generation, self.now_ms = StreamsMemory.empty(), 0, NOW_MS
        self.rest()

    def _assign(self, view: StreamsView, configs: AssignmentConfigs, policy: str) -> StreamsPlan:
        return assign_streams(view, configs, policy, load=LoadAware(Weights(self.weights, error=self.error)))

    def rebalance(self) -> Decision[TaskPlan]:
        self.generation += 1
        raw = group(*self.threads, generation=self.generation)
        by = self.memory, self.configs, LOAD_AWARE, self.now_ms
        decision = decide_streams(raw, self.cluster, self.ends, SHOP, *by, assignors=self.assignors)
        assert isinstance(decision, Decision), decision
        self.memory, self.threads = decision.plan.memory, [thread.after(decision) for thread in self.threads]
        return decision

    def rest(self) -> None:
        for _ in range(REBALANCES_TO_REST):
            self.decision = decision = self.rebalance()
            if not decision.followup and decision.probing_at_ms is None:
                return
            self.now_ms = self.now_ms + 1_000 if decision.followup else max(self.now_ms, decision.probing_at_ms or 0)
        raise AssertionError(f"not at rest after {REBALANCES_TO_REST} rebalances")

    def load_requests(self) -> int:
        """Carries out what uneven load asks for, and returns how many rebalances it asked for."""
        for requests in range(LOAD_REQUESTS + 1):
            self.now_ms += PAUSE_MS
            if not tasks_to_move(self.decision, LOAD_AWARE, self.assignors, self.now_ms):
                return requests
            self.rest()
        return LOAD_REQUESTS + 1

    def change_weights(self) -> None:
        for partition in self.random.sample(sorted(self.weights), len(self.weights) // 2):
            self.weights[partition] *= self.random.choice([0.3, 1, 3])

    def restart(self) -> None:
        """A process ends, the others come to rest, and it is back without reporting its stores."""
        process = self.random.choice(self.threads).process
        ended = [thread for thread in self.threads if thread.process == process]
        self.threads = [thread for thread in self.threads if thread.process != process]
        self.rest()
        self.threads += [replace(t, member_id=f"{t.member_id}-again", owned=(), sums={}, generation=-1) for t in ended]
        self.rest()


@pytest.mark.parametrize("seed", seeds(64))
def test_an_application_comes_to_rest_after_its_load_has_changed(seed: int) -> None:
    shop = WeighedShop(Random(seed))
    for _ in range(2):
        shop.change_weights()
        assert shop.load_requests() <= LOAD_REQUESTS


@pytest.mark.parametrize("seed", seeds(96))
def test_an_application_comes_to_rest_after_a_restart_of_a_process(seed: int) -> None:
    shop = WeighedShop(Random(seed))
    shop.restart()
    assert shop.load_requests() <= LOAD_REQUESTS
