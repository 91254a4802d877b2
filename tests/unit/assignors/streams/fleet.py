"""A Streams application whose instances live, decision by decision, as Kafka Streams 4.3 does: a process that
has restarted reports nothing of what is on its disk until it is given the task.

One application: stateless tasks, large stores and small ones, six of each by
default, one copy of each partition in one of three racks, one standby, two warm-ups at a time.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from bellwether_kafka.assignors.shared import ClusterView, Decision
from bellwether_kafka.assignors.streams import STOCK, TaskPlan
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    AssignmentConfigs,
    EndOffsets,
    Subtopology,
    Topology,
)
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import NOW_MS, Thread, group, led, sent

QUIET_MS = 3000

RACKS = ("az1", "az2", "az3")
PARTITIONS = 6
STORES = {"large": 50_000, "small": 600}
TOPOLOGY = Topology(
    "shop",
    (
        Subtopology(0, ("orders",)),
        *(Subtopology(n, (f"{s}-in",), changelogs=(f"shop-{s}-changelog",)) for n, s in enumerate(STORES, start=1)),
    ),
    "file",
)
ENDS = {f"shop-{store}-changelog": end for store, end in STORES.items()}
PATIENCE_MS = 1_000


class Fleet:
    """Instances of two threads."""

    def __init__(
        self,
        policy: str,
        strategy: str,
        *,
        forgetful: bool = False,
        durable: bool = False,
        instances: int = 3,
        partitions: int = PARTITIONS,
    ) -> None:
        self.policy, self.now_ms, self.rebalances, self.moves = policy, NOW_MS, 0, 0
        self.forgetful = forgetful
        self.assignors = replace(STOCK, durable=durable)
        self.each_rebalance: Callable[[Decision[TaskPlan]], None] = lambda _: None
        self.configs = AssignmentConfigs(
            acceptable_recovery_lag=1_000, num_standby_replicas=1, rack_aware_assignment_strategy=strategy
        )
        self.behind: frozenset[int] = frozenset()
        placed = [(RACKS[p % 3],) for p in range(partitions)]
        self.cluster = ClusterView.of(dict.fromkeys((*TOPOLOGY.source_topics, *TOPOLOGY.changelogs), placed))
        self.ends = {topic: [end] * partitions for topic, end in ENDS.items()}
        self.lives = dict.fromkeys(range(instances), 0)
        self.threads: dict[str, Thread] = {}
        self.memory = StreamsMemory.empty()
        self.decision: Decision[TaskPlan] | None = None
        for process in self.lives:
            self.start(process)
        self.rest()

    def start(self, process: int, *, wiped: bool = False) -> None:
        """`wiped`: its disk is empty, and what it restores after its next rebalance is still far behind."""
        self.behind = self.behind | {process} if wiped else self.behind - {process}
        self.lives[process] += 1
        for n in range(2):
            name = f"{process}-{self.lives[process]}-{n}"
            rack = RACKS[process % 3]
            self.threads[name] = Thread(name, process + 1, TOPOLOGY.source_topics, rack=rack)

    def stop(self, process: int) -> None:
        for name in [n for n, t in self.threads.items() if t.process == process + 1]:
            del self.threads[name]

    def rebalance(self) -> Decision[TaskPlan]:
        """One rebalance; then every thread runs what it was sent, and has caught up on its copies."""
        self.rebalances += 1
        decision = led(
            group(*self.threads.values(), generation=self.rebalances),
            topology=TOPOLOGY,
            cluster=self.cluster,
            ends=EndOffsets(self.ends, self.now_ms),
            memory=self.memory,
            configs=self.configs,
            assignors=self.assignors,
            policy=self.policy,
            now_ms=self.now_ms,
        )
        self.memory, self.decision = decision.plan.memory, decision
        self.moves += decision.moves.moved
        self.each_rebalance(decision)
        if self.forgetful:
            self.memory = replace(self.memory, records={}, target=None)
        for name, thread in self.threads.items():
            partitions, info = sent(decision, name)
            ends = {t: list(STORES.values())[t.subtopology - 1] for t, _ in info.standby_tasks}
            far = thread.process - 1 in self.behind
            standbys = {t: 1 if far else end for t, end in ends.items()}
            sums = standbys | {t: LATEST_OFFSET for t in info.active_tasks if t.subtopology}
            self.threads[name] = replace(
                thread,
                owned=partitions,
                sums={(t.subtopology, t.partition): value for t, value in sums.items()},
                generation=self.rebalances,
                unique=(thread.unique + 1) % 128,
            )
        self.behind = frozenset()
        return decision

    def asked_ms(self) -> int:
        """When the first thread is to join again."""
        return min(sent(self.decision, name)[1].next_rebalance_ms for name in self.threads)

    def rest(self) -> None:
        """Rebalances until the operator may go on."""
        for _ in range(12):
            self.rebalance()
            if self.asked_ms() > self.now_ms + PATIENCE_MS:
                return
            self.now_ms = max(self.now_ms, self.asked_ms())
        raise AssertionError("it never comes to rest")

    def settle(self) -> None:
        """Rebalances until nothing is to be promoted; the leader itself asks for those that threads do not ask for."""
        for _ in range(12):
            self.rest()
            if self.decision is not None and not self.decision.plan.target.probing:
                return
            self.now_ms += QUIET_MS
            self.rebalance()
        raise AssertionError("it never settles")

    def owners(self) -> dict[str, int]:
        """The process of each task that runs."""
        owner_of = {}
        for name, thread in self.threads.items():
            for task in set(sent(self.decision, name)[1].active_tasks) if self.decision is not None else ():
                owner_of[str(task)] = thread.process - 1
        return owner_of


class Copies:
    """Who has a copy of which stateful task, running or not, and who gave one up."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.of: dict[str, set[TaskId]] = {}
        self.given_up: list[tuple[str, TaskId]] = []
        fleet.each_rebalance = self.see

    def see(self, decision: Decision[TaskPlan]) -> None:
        now = {}
        for name in self.fleet.threads:
            info = sent(decision, name)[1]
            now[name] = {t for t in (*info.active_tasks, *(t for t, _ in info.standby_tasks)) if t.subtopology}
        self.given_up += [(name, t) for name, had in self.of.items() if name in now for t in sorted(had - now[name])]
        self.of = now

    def of_process(self, process: int) -> set[TaskId]:
        return {t for name, mine in self.of.items() if self.fleet.threads[name].process == process + 1 for t in mine}

    @property
    def short(self) -> set[TaskId]:
        """Tasks without a standby."""
        tasks = Counter(task for mine in self.of.values() for task in mine)
        return {task for task, copies in tasks.items() if copies < 2}


def seen(strategy: str, instances: int = 3, partitions: int = 6) -> tuple[Fleet, Copies]:
    fleet = Fleet(STREAMS_HA, strategy, instances=instances, partitions=partitions)
    fleet.settle()
    copies = Copies(fleet)
    fleet.rebalance()
    return fleet, copies
