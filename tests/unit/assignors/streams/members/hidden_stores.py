"""An application whose processes hide their stores after a restart, rebalance by rebalance."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.shared import Decision, Rule
from bellwether_kafka.assignors.streams import TaskPlan, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import NOW_MS, SHOP, Thread, ends_of, group, led, sent

COUNTS = {"orders": 6, "shop-by-user-repartition": 6, "shop-totals-changelog": 6}


END = 5_000


NEAR = END - 10


NOTHING: Mapping[tuple[int, int], int] = {}


def configs(standbys: int) -> AssignmentConfigs:
    return AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=standbys)


@dataclass
class Scenario:
    """Three processes, one thread each, that have come to rest; rebalances are appended as they are decided."""

    standbys: int = 1
    policy: str = STREAMS_HA
    durable: bool = False
    rules: tuple[Rule, ...] = ()
    most_warmups: int = 2
    now_ms: int = NOW_MS
    threads: dict[str, Thread] = field(default_factory=lambda: {n: Thread(n, i) for i, n in enumerate("abc", start=1)})
    decisions: list[Decision[TaskPlan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        while not self.decisions or self.last.followup or self.last.plan.target.probing:
            self.rebalance()

    @property
    def last(self) -> Decision[TaskPlan]:
        return self.decisions[-1]

    def rebalance(self, *absent: str) -> Decision[TaskPlan]:
        here = [t for name, t in self.threads.items() if name not in absent]
        decision = led(
            group(*here, generation=len(self.decisions) + 1),
            counts=COUNTS,
            ends=ends_of(SHOP, COUNTS, END),
            memory=self.last.plan.memory if self.decisions else None,
            configs=replace(configs(self.standbys), max_warmup_replicas=self.most_warmups),
            assignors=stock(StageConfigs(rules=self.rules), durable=self.durable),
            policy=self.policy,
            now_ms=self.now_ms,
        )
        self.decisions.append(decision)
        for name, thread in self.threads.items():
            if name not in absent:
                kept = {task: NEAR for task, value in thread.after(decision).sums.items() if value >= 0}
                self.threads[name] = replace(thread.after(decision), sums=thread.after(decision).sums | kept)
        return decision

    def restart(self, name: str, sums: Mapping[tuple[int, int], int] = NOTHING) -> None:
        """The same process under a new member id; it owns nothing and reports no more than `sums`."""
        old = self.threads[name]
        self.threads[name] = Thread(f"{old.member_id}'", old.process, sums=sums)

    def stateful(self, name: str) -> tuple[set[TaskId], set[TaskId]]:
        """(active, standby) stateful tasks that the plan means for this process."""
        plan, view = self.last.plan, self.last.plan.view
        process = next(p for p, v in enumerate(view.processes) if self.threads[name].member_id in v.members)
        active = {view.tasks.task_id(t) for t, p in enumerate(plan.target.active.tolist()) if p == process}
        standby = {
            view.tasks.task_id(t) for t in plan.target.standby_task[plan.target.standby_process == process].tolist()
        }
        return {t for t in active if t.subtopology == 1}, standby

    def asked_ms(self, name: str) -> int:
        return sent(self.last, self.threads[name].member_id)[1].next_rebalance_ms
