"""An application that is led: which troubles of its members hand the lead back, which are an alert, which are none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.membership import RebalanceWanted, StepAsideWanted, WorkSuspected
from bellwether_kafka.coordinator.triggers import Finding, WorkWatch
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from tests.kit.streams import NOW_MS, SHOP, Thread, ends_of, group, led, sent

ASKED_MAX = 3

POLL_MS, STALL_MS, END = 5_000, 600_000, 1_000
STATELESS = Topology("shop", (Subtopology(0, ("orders",)),), "file")
STATEFUL = Topology("shop", (Subtopology(0, ("orders",), changelogs=("shop-totals-changelog",)),), "file")


class Does(Enum):
    """What an instance does with the tasks that it has."""

    ALL = "runs all of its tasks"
    NOTHING = "is paused: it runs and restores nothing"
    STATELESS = "runs its stateless tasks, and waits for a changelog that is not there"
    RESTORES = "runs its stateless tasks, and restores the others"
    HANGS = "runs its tasks, and waits for another system"


@dataclass
class Instance:
    name: str
    process: int
    does: Does = Does.ALL
    state: int = END  # offset sum of each stateful task on its disk
    commit_ms: int = POLL_MS
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(self.name, self.process)


class Life:
    """Instances between plans. All partitions get records; those of tasks that run are committed. `end` is the end of
    each changelog. What the watch concludes is in `verdicts`, by milliseconds from the last `plan`."""

    def __init__(self, *instances: Instance, topology: Topology = SHOP, end: int = END) -> None:
        self.topology, self.counts, self.end = topology, dict.fromkeys({*topology.topics}, 4), end
        self.watch, self.now_ms, self.generation = WorkWatch(STALL_MS), NOW_MS, 0
        self.instances: list[Instance] = []
        self.verdicts: list[tuple[int, Finding]] = []
        self.asked: list[int] = []
        self.done: dict[tuple[str, int], int] = {}
        self.produced, self.began_ms = 100, NOW_MS
        self.plan(*instances)

    def plan(self, *instances: Instance) -> "Life":
        """A rebalance after which these are the members."""
        self.instances, self.began_ms = list(instances), self.now_ms
        for instance in instances:
            instance.thread = replace(instance.thread, topics=self.topology.source_topics)
            if not instance.thread.owned and instance.state:
                sums = {(s.id, p): instance.state for s in self.topology.subtopologies if s.stateful for p in range(4)}
                instance.thread = replace(instance.thread, sums=sums)
        self.verdicts, self.asked = [], []
        self._rebalance()
        return self

    def live(self, for_ms: int, each: Callable[[], None] = lambda: None) -> "Life":
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.now_ms += POLL_MS
            self.produced += 10
            each()
            self._work()
            done, ends = self._offsets()
            findings = self.watch.refresh(self.decision, done, ends, self.now_ms)
            self._conclude(findings)
            if any(isinstance(finding, RebalanceWanted) for finding in findings):
                self.asked.append(self.now_ms - self.began_ms)
                self._join_again()
        return self

    @property
    def alerts(self) -> list[str]:
        return [verdict.reason for _, verdict in self.verdicts if isinstance(verdict, WorkSuspected)]

    @property
    def handed_back_ms(self) -> list[int]:
        return [at for at, verdict in self.verdicts if isinstance(verdict, StepAsideWanted)]

    def _work(self) -> None:
        for instance in self.instances:
            if (self.now_ms // POLL_MS + instance.process) % (instance.commit_ms // POLL_MS):
                continue
            partitions, _ = sent(self.decision, instance.name)
            for tp in partitions:
                stateful = self.topology.find(self.topology.subtopology_of[tp.topic]).stateful  # type: ignore[union-attr]  # it is there
                if instance.does is Does.ALL or (instance.does in HALF and not stateful):
                    self.done[tp.topic, tp.partition] = self.produced
            if instance.does is Does.RESTORES:
                instance.state = min(self.end, instance.state + 1)

    def _offsets(self) -> tuple["np.ndarray", "np.ndarray"]:
        cluster = self.decision.cluster
        done = np.full(cluster.partition_total, 50, dtype=np.int64)
        for (topic, partition), offset in self.done.items():
            done[cluster.flat(topic, partition)] = offset
        return done, np.full(cluster.partition_total, self.produced + 10, dtype=np.int64)

    def _join_again(self) -> None:
        for instance in self.instances:
            partitions, info = sent(self.decision, instance.name)
            value = LATEST_OFFSET if instance.does in (Does.ALL, Does.HANGS) else instance.state
            stateful = {s.id for s in self.topology.subtopologies if s.stateful}
            sums = {(t.subtopology, t.partition): value for t in info.active_tasks if t.subtopology in stateful}
            unique = (instance.thread.unique + 1) % 128
            instance.thread = replace(
                instance.thread, owned=partitions, sums=sums, generation=self.generation, unique=unique
            )
        self._rebalance()

    def _rebalance(self) -> None:
        self.generation += 1
        raw = group(*(instance.thread for instance in self.instances), generation=self.generation)
        ends = ends_of(self.topology, self.counts, self.end)
        self.decision: Decision[TaskPlan] = led(
            raw, topology=self.topology, counts=self.counts, ends=ends, now_ms=self.now_ms
        )
        self._conclude(self.watch.planned(self.decision))

    def _conclude(self, findings: Sequence[Finding]) -> None:
        verdicts = [finding for finding in findings if not isinstance(finding, RebalanceWanted)]
        self.verdicts += [(self.now_ms - self.began_ms, verdict) for verdict in verdicts]


HALF = (Does.STATELESS, Does.RESTORES)


def settled(commit_ms: int = POLL_MS) -> Life:
    """Two instances that have worked for five minutes, and nothing was asked in vain."""
    life = Life(Instance("a", 1, commit_ms=commit_ms), Instance("b", 2, commit_ms=commit_ms)).live(300_000)
    assert (life.verdicts, life.asked) == ([], [])
    return life


@pytest.mark.parametrize("state", [0, 700, END], ids=["no state", "another instance has written more", "all state"])
@pytest.mark.parametrize(("commit_ms", "limit_ms"), [(POLL_MS, 60_000), (30_000, 75_000)])
def test_a_half_upgraded_application_is_handed_back_within_a_minute(state: int, commit_ms: int, limit_ms: int) -> None:
    """It stood half still, and commits of the other instance were taken for work. By Kafka's default the members commit
    every 30 s, and one commit has to lie between two reports."""
    life = settled(commit_ms)
    b = Instance("b-2", 2, Does.STATELESS, state, commit_ms)
    life.plan(life.instances[0], b).live(120_000)
    assert life.handed_back_ms
    assert life.handed_back_ms[0] <= limit_ms


def test_a_first_start_by_the_file_of_another_version_is_handed_back_within_a_minute() -> None:
    life = Life(Instance("a", 1, Does.STATELESS, 0), Instance("b", 2, Does.STATELESS, 0), end=0).live(90_000)
    assert life.handed_back_ms
    assert life.handed_back_ms[0] <= 60_000


def paused_from_the_start(state: int = END) -> Mapping[str, Instance]:
    return {n: Instance(n, p, Does.NOTHING, state) for p, n in ((1, "a"), (2, "b"))}


@pytest.mark.parametrize("topology", [SHOP, STATELESS, STATEFUL], ids=["both kinds", "stateless", "stateful"])
@pytest.mark.parametrize("end", [0, END], ids=["changelogs are empty", "stores are up to date"])
def test_an_application_that_starts_paused_is_not_handed_back(topology: Topology, end: int) -> None:
    """KIP-834. Its stores wait at the end of their changelogs, as if one were missing."""
    life = Life(*paused_from_the_start(end).values(), topology=topology, end=end).live(STALL_MS // 2)
    assert life.handed_back_ms == []
    assert len(life.alerts) == 1
    assert "KafkaStreams.pause" in life.alerts[0] or topology is STATELESS
    assert len(life.asked) <= ASKED_MAX


@pytest.mark.slow
def test_an_application_that_is_restarted_paused_is_not_handed_back() -> None:
    life = settled()
    life.plan(*(replace(i, name=f"{i.name}-2", does=Does.NOTHING) for i in life.instances)).live(1_800_000)
    assert life.handed_back_ms == []
    assert "KafkaStreams.pause" in life.alerts[0]


def test_one_paused_instance_beside_one_that_works_is_an_alert_after_the_last_question() -> None:
    life = settled()
    life.plan(life.instances[0], Instance("b-2", 2, Does.NOTHING)).live(STALL_MS // 2)
    assert life.handed_back_ms == []
    (alert,) = life.alerts
    assert "member b-2 has committed nothing for task 1_1, 1_3 since it joined" in alert
    assert "neither runs nor restores" in alert
    assert "KafkaStreams.pause" in alert
    assert len(life.asked) == ASKED_MAX
    assert life.verdicts[0][0] <= life.asked[-1] + 15_000


def test_an_upgraded_instance_without_a_task_that_runs_is_an_alert_that_names_both_causes() -> None:
    """It sends the same as a paused one."""
    life = Life(Instance("a", 1), Instance("b", 2), topology=STATEFUL).live(300_000)
    life.plan(life.instances[0], Instance("b-2", 2, Does.STATELESS, 700)).live(120_000)
    assert life.handed_back_ms == []
    assert "with a changelog that the topology file lacks" in life.alerts[0]


def test_members_that_restore_are_no_verdict_however_long_it_takes() -> None:
    life = settled()
    life.plan(*(replace(i, name=f"{i.name}-2", does=Does.RESTORES, state=0) for i in life.instances)).live(500_000)
    assert life.verdicts == []


def test_members_that_are_paused_while_they_restore_are_no_hand_back() -> None:
    life = settled()
    life.plan(*(replace(i, name=f"{i.name}-2", does=Does.RESTORES, state=0) for i in life.instances)).live(12_000)
    for instance in life.instances:
        instance.does = Does.NOTHING
    assert life.live(STALL_MS // 2).handed_back_ms == []


@pytest.mark.slow
def test_an_outage_downstream_while_instances_restart_is_not_handed_back() -> None:
    """Five minutes without a commit, since the plan for members that had changed, were enough."""
    life = settled()
    life.plan(*(replace(i, name=f"{i.name}-2", does=Does.HANGS) for i in life.instances)).live(3_600_000)
    assert life.handed_back_ms == []
    assert (
        "by its reports they do not wait for state: the application may be paused, or wait for another system"
        in life.alerts[0]
    )


def test_a_member_that_is_known_to_run_its_tasks_is_not_asked_again() -> None:
    life = settled()
    life.plan(*(replace(i, name=f"{i.name}-2", does=Does.HANGS) for i in life.instances)).live(STALL_MS // 2)
    assert len(life.asked) == 1


def test_tasks_that_are_not_worked_on_later_are_an_alert() -> None:
    life = settled()
    life.instances[1].does = Does.HANGS
    life.live(STALL_MS + POLL_MS)
    assert life.alerts == ["task 0_1, 0_3, 1_1 and 1 more has records to read and commits nothing for 600 s"]
    assert life.asked == []
    assert life.live(STALL_MS).alerts == life.alerts, "once for the same tasks"


@pytest.mark.slow
def test_members_that_come_and_go_do_not_put_off_the_alert_on_another() -> None:
    """Each of them began the questions anew."""
    life = settled()
    a, b = life.instances[0], Instance("b-2", 2, Does.NOTHING)
    life.plan(a, b)
    verdicts = list[tuple[int, Finding]]()
    for turn in range(8):
        life.live(20_000)
        verdicts += life.verdicts
        others = [Instance(f"c-{turn}", 3)] if turn % 2 else []
        life.plan(a, b, *others)
    assert [verdict for _, verdict in verdicts if isinstance(verdict, WorkSuspected) and "b-2" in verdict.reason]


def test_many_members_that_commit_in_turn_are_not_asked_before_their_first_commit_is_due() -> None:
    instances = [Instance(f"i{n}", n, commit_ms=30_000) for n in range(1, 5)]
    life = Life(*instances).live(300_000)
    life.plan(*instances[:-1], Instance("i4-2", 4, commit_ms=30_000)).live(300_000)
    assert (life.asked, life.verdicts) == ([], [])


def test_brokers_that_do_not_answer_for_a_while_are_no_verdict() -> None:
    life = settled()

    def outage() -> None:
        life.watch.unknown(life.now_ms)

    life.plan(life.instances[0], Instance("b-2", 2, Does.STATELESS, 700)).live(300_000, outage)
    assert life.verdicts == []


def test_instances_that_all_end_at_once_are_an_alert_once() -> None:
    """Why they end is not known: another system may be out of reach when they start."""
    life = Life(Instance("a", 1, Does.NOTHING), Instance("b", 2, Does.NOTHING)).live(20_000)
    (verdict,) = life.watch.alone(life.now_ms)
    assert isinstance(verdict, WorkSuspected)
    assert "all instances have ended within 60 s" in verdict.reason
    assert life.watch.alone(life.now_ms) == ()


def test_instances_that_have_worked_may_end() -> None:
    life = settled()
    assert life.watch.alone(life.now_ms) == ()


def test_members_that_report_nothing_of_their_tasks_are_not_asked() -> None:
    """Stateful members other than Streams."""
    life = settled()
    life.watch = WorkWatch(STALL_MS, reports=False)
    life.plan(Instance("a-2", 1, Does.NOTHING), Instance("b-2", 2, Does.NOTHING)).live(STALL_MS + 2 * POLL_MS)
    assert life.asked == []
    assert len(life.alerts) == 1
