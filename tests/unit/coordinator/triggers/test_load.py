"""A rebalance is requested exactly when the policy would move something, and not again at once."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import LOAD_AWARE, LoadAware, PartitionPlan, decide
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Plan, RawMember, Rule, Weights
from bellwether_kafka.assignors.streams import STOCK
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.policies import assign_streams
from bellwether_kafka.coordinator.membership import RebalanceWanted
from bellwether_kafka.coordinator.planning import Planned, Timings, WatchedTopics
from bellwether_kafka.coordinator.triggers import TRIGGERS, Reading, tasks_to_move, would_move
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import BY_LOAD, EVEN_LOADS, LiveMember, decided_by_load, heavy_on_one, live_group
from tests.kit.runtime import picture
from tests.kit.streams import NOW_MS, SHOP_COUNTS, Thread, group, led, sent

SOURCES = "orders", "shop-by-user-repartition"  # of the subtopologies 0 and 1


def planned(decision: Decision[PartitionPlan]) -> Planned[PartitionPlan]:
    return Planned(decision, WatchedTopics(("t",)), Timings(0, 0, 0))


class Watched:
    """A group whose load stays uneven."""

    def __init__(self) -> None:
        self.decision, self.now_s = decided_by_load(), 0.0
        self.weights = heavy_on_one(self.decision)
        self.planned, self.state = planned(self.decision), None
        self.judge()

    def judge(self, moved: int | None = None) -> bool:
        """Returns whether a rebalance is asked for."""
        seen = picture(policy=LOAD_AWARE, now=self.now_s, planned=self.planned, moved=moved)
        self.state, findings = TRIGGERS["load"].judge(seen, self.state)
        reason = f"the load of members is uneven, {moved} partitions would move"
        assert findings in ((), (RebalanceWanted(reason, "load"),))
        return bool(findings)

    def wants(self) -> bool:
        seen = picture(policy=LOAD_AWARE, now=self.now_s, planned=self.planned)
        return Reading.MOVED in TRIGGERS["load"].wants(seen, self.state)

    def minutes(self, count: int, *, rebalance: Decision[PartitionPlan] | None = None) -> list[float]:
        """Returns the minutes of the requests in this time. A request leads to the rebalance at once."""
        asked = []
        for _ in range(count):
            if self.wants() and self.judge(would_move(self.decision, BY_LOAD, self.weights)):
                asked.append(self.now_s / 60.0)
                if rebalance is not None:
                    self.planned = planned(rebalance)
                    self.judge()
            self.now_s += 60.0
        return asked


def test_it_asks_for_nothing_while_load_is_even() -> None:
    watched = Watched()
    watched.weights = EVEN_LOADS
    assert watched.minutes(4) == []


@pytest.mark.slow
def test_the_pause_doubles_while_rebalances_leave_all_owners_as_they_were() -> None:
    watched = Watched()
    assert watched.minutes(32, rebalance=watched.decision) == [0, 2, 6, 14, 30]


@pytest.mark.slow
def test_the_pause_does_not_exceed_an_hour() -> None:
    watched = Watched()
    assert watched.minutes(200, rebalance=watched.decision)[-2:] == [122, 182]


def test_the_pause_is_short_again_once_owners_have_changed() -> None:
    watched = Watched()
    watched.minutes(8, rebalance=watched.decision)
    owner = watched.decision.plan.owner.copy()
    owner[owner == 1] = 0
    other = replace(watched.decision.plan, target=Plan.of(owner))
    watched.planned = planned(replace(watched.decision, plan=other))
    watched.judge()
    assert watched.minutes(2)[0] == 8


def test_a_request_without_a_rebalance_is_repeated_after_the_same_pause() -> None:
    assert Watched().minutes(4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "rule",
    [
        Rule("ban", "*", "member:c", "evacuate"),
        Rule("pin", "t-0", "member:c", "pin"),
        Rule("ban", "t", "member:a", "ban"),
    ],
    ids=lambda rule: rule.order,
)
def test_orders_that_are_in_force_are_no_uneven_load(rule: Rule) -> None:
    """Without regard to them a plan each minute would give a member what they take from it again."""
    members = [LiveMember(name, ("t",)) for name in "abc"]
    cluster = ClusterView.of({"t": [[None]] * 8})
    policy = BY_LOAD.with_weights(EVEN_LOADS).with_rules((rule,))
    decision = decide(live_group(members, 1, "range"), cluster, Memory.empty(), policy, now_ms=0)
    assert would_move(decision, BY_LOAD, EVEN_LOADS, (rule,)) == 0
    busy = Weights(
        {TopicPartition("t", p): 100.0 if owner == 1 else 10.0 for p, owner in enumerate(decision.plan.owner)}
    )
    assert would_move(decision, BY_LOAD, busy, (rule,)) > 0, "b has most of the load, and others may have some of it"


def test_it_would_move_no_more_than_the_limit_after_the_first_rebalance() -> None:
    members = [LiveMember(f"m{i}", ("t",)) for i in range(6)]
    cluster = ClusterView.of({"t": [[None]] * 60})
    decision = decide(live_group(members, 1, "range"), cluster, Memory.empty(), BY_LOAD, now_ms=0)
    skewed = Weights({TopicPartition("t", p): 1000.0 / (1 + p) for p in range(60)})
    assert 0 < would_move(decision, BY_LOAD, skewed) <= BY_LOAD.load.rules.limit(60)


@pytest.mark.parametrize("partitions_left", [0, 3], ids=["none", "too few"])
def test_weights_that_are_not_known_any_more_move_nothing(partitions_left: int) -> None:
    """As after an outage of the pipeline, or just after the clock was set. The first plan balanced unequal weights."""
    skewed = Weights({TopicPartition("t", p): 100.0 if p == 0 else 10.0 for p in range(8)})
    decision = decided_by_load(BY_LOAD.with_weights(skewed))
    counts = np.bincount(decision.plan.owner).tolist()
    assert counts != [4, 4], "by counts others would have the partitions"
    lost = Weights(dict(list(skewed.of.items())[:partitions_left]))
    assert would_move(decision, BY_LOAD, lost) == 0


class Shop:
    """An application of two processes, at rest under `load-aware` while all partitions weigh 100."""

    def __init__(self) -> None:
        self.weights = {TopicPartition(topic, p): 100.0 for topic in SOURCES for p in range(SHOP_COUNTS[topic])}
        self.assignors = replace(STOCK, assign=self._assign)
        self.threads, self.memory, self.generation = [Thread("a", 1), Thread("b", 2)], StreamsMemory.empty(), 0
        self.come_to_rest()

    def come_to_rest(self) -> None:
        for _ in range(6):
            self.generation += 1
            raw = group(*self.threads, generation=self.generation)
            at_ms = NOW_MS + 60_000 * self.generation
            self.decision = led(raw, memory=self.memory, assignors=self.assignors, policy=LOAD_AWARE, now_ms=at_ms)
            self.memory, self.threads = self.decision.plan.memory, [t.after(self.decision) for t in self.threads]

    def _assign(self, view: StreamsView, configs: AssignmentConfigs, policy: str) -> StreamsPlan:
        return assign_streams(view, configs, policy, load=LoadAware(Weights(self.weights)))

    def weigh_tasks_of_a(self, weight: float) -> None:
        """Gives this weight to the partitions that the tasks of process a read."""
        tasks = set(sent(self.decision, "a")[1].active_tasks)
        self.weights |= {TopicPartition(SOURCES[t.subtopology], t.partition): weight for t in tasks}

    @property
    def to_move(self) -> int:
        return tasks_to_move(self.decision, LOAD_AWARE, self.assignors, NOW_MS + 3_600_000)


@pytest.mark.slow
def test_tasks_move_once_the_load_of_processes_is_uneven() -> None:
    shop = Shop()
    assert shop.to_move == 0
    shop.weigh_tasks_of_a(105.0)
    assert shop.to_move == 0, "within the dead band"
    shop.weigh_tasks_of_a(400.0)
    assert shop.to_move > 0


def test_no_task_gets_another_destination_while_tasks_are_on_their_way() -> None:
    shop = Shop()
    shop.weigh_tasks_of_a(400.0)
    shop.decision = replace(shop.decision, probing_at_ms=NOW_MS + 60_000)
    assert shop.to_move == 0


@pytest.mark.slow
def test_rebalances_that_uneven_load_asks_for_come_to_an_end() -> None:
    shop = Shop()
    shop.weigh_tasks_of_a(400.0)
    shop.come_to_rest()
    assert shop.decision.probing_at_ms is None
    assert not shop.decision.followup
    assert shop.to_move == 0


@pytest.mark.slow
def test_weights_that_are_not_known_any_more_move_no_task() -> None:
    """The process with the heavy task has fewer tasks than the other; by counts it would get more."""
    shop = Shop()
    shop.weights[TopicPartition("orders", 0)] = 600.0
    shop.come_to_rest()
    counts = sorted(len(set(sent(shop.decision, process)[1].active_tasks)) for process in "ab")
    assert counts[0] < counts[1]
    shop.weights.clear()
    assert shop.to_move == 0


def test_members_that_cannot_be_read_leave_tasks_where_they_are() -> None:
    shop = Shop()
    shop.weigh_tasks_of_a(400.0)
    unreadable = RawMember("c", None, b"\xff")
    shop.decision = replace(
        shop.decision, raw=replace(shop.decision.raw, members=(*shop.decision.raw.members, unreadable))
    )
    assert shop.to_move == 0
