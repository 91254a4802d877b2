"""A group that a policy keeps moving although nothing changes is noticed, damped and reported."""

import asyncio
import time

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import Decide, JoinedMember
from bellwether_kafka.coordinator.planning import CauseKind, ConsumerKind, Planner, Source
from tests.kit.consumers import LiveMember
from tests.kit.plans import Reader

CHANGES_MAX = 6

REBALANCES = 4 * CHANGES_MAX


class Restless:
    """A plug-in that gives partitions to the next member whenever it is asked, until it is `calm`."""

    name = "restless"
    cooperative = True
    calm = False
    asked = 0
    fails = False

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        if self.fails:
            raise ValueError("no plan")
        self.asked += not self.calm
        return (np.arange(cluster.partition_total, dtype=np.int32) + self.asked) % group.size


class Scene:
    """Members that join again although nothing has changed. `wanted`: Bellwether's own reason."""

    def __init__(self, wanted: str = "") -> None:
        self.wanted = wanted
        self.plugin = Restless()
        self.planner = Planner("orders", ConsumerKind(Reader(), Policy("restless", {"restless": self.plugin})))
        self.members = [LiveMember("a", ("t",)), LiveMember("b", ("t",))]
        self.generation = 0
        self.sources: list[Source] = []
        self.reasons: list[str] = []
        self.causes: list[CauseKind] = []
        self.moved: list[int] = []

    def rebalance(self, times: int = 1) -> None:
        for _ in range(times):
            self.generation += 1
            there = tuple(JoinedMember(m.member_id, None, m.metadata) for m in self.members)
            command = Decide(
                self.generation, "cooperative-sticky", there, "", time.monotonic() + 60, wanted=self.wanted
            )
            planned = asyncio.run(self.planner.plan(command))
            delivered = self.planner.delivered(self.generation)
            assert delivered is not None
            self.members = [member.after(planned.decision) for member in self.members]
            self.decided = planned.decision
            self.sources.append(planned.source)
            self.reasons += planned.reasons
            self.causes.append(delivered.cause.kind)
            self.moved.append(delivered.decision.moves.moved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "kind"),
    [("", CauseKind.AGAIN), ("members without work", CauseKind.REQUESTED)],
    ids=["again", "requested"],
)
def test_a_policy_that_does_not_settle_is_damped_and_named_until_something_changes(
    wanted: str, kind: CauseKind
) -> None:
    """Members or Bellwether's watches may ask for the rebalances. Those of a watch once reset the counts each
    time, so that nothing was damped."""
    scene = Scene(wanted)
    scene.rebalance(REBALANCES)
    assert set(scene.causes[1:]) == {kind, CauseKind.PENDING}
    damped = scene.sources.index(Source.CHEAP)
    assert sum(map(bool, scene.moved[:damped])) == CHANGES_MAX
    assert scene.moved[-CHANGES_MAX:] == [0] * CHANGES_MAX, "and then it rests"
    assert scene.reasons[0].startswith("plan: policy restless does not settle: ")
    assert f"which got another one {CHANGES_MAX} times" in scene.reasons[0]
    scene.members.append(LiveMember("c", ("t",)))
    scene.rebalance()
    assert scene.sources[-1] is Source.PLAN


@pytest.mark.slow
def test_a_plan_of_the_policy_that_changes_nothing_is_sent() -> None:
    scene = Scene()
    scene.rebalance(REBALANCES)
    scene.plugin.calm = True
    calm = [member.owned for member in scene.members]
    scene.plugin.asked = 0 if calm[0] == (("t", 0), ("t", 2)) else 1
    scene.rebalance()
    assert scene.sources[-1] is Source.PLAN
    assert scene.moved[-1] == 0


@pytest.mark.slow
def test_a_policy_that_settles_is_never_damped() -> None:
    scene = Scene()
    scene.plugin.calm = True
    scene.rebalance(REBALANCES)
    assert set(scene.sources) == {Source.PLAN}


@pytest.mark.slow
@pytest.mark.parametrize("back_s", [0.0, 3_600.0])
def test_rare_moves_are_no_unrest_also_after_the_clock_was_set_back(
    back_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, now_s = Scene(), [1e9]
    monkeypatch.setattr(clocks, "wall", lambda: now_s[0])
    for number in range(REBALANCES):
        scene.rebalance()
        now_s[0] += 150.0 - back_s * (number == 2)
    assert set(scene.sources) == {Source.PLAN}


def test_what_a_cheaper_plan_left_pending_is_planned_by_the_policy() -> None:
    """It was handed out as the cheaper plan had it, although the policy had another plan again."""
    scene = Scene()
    scene.plugin.calm = True
    scene.rebalance()
    scene.members.append(LiveMember("c", ("t",)))
    scene.plugin.fails = True
    scene.rebalance()
    assert scene.decided.plan.pending.any()
    cheaper = scene.decided.plan.owner
    scene.plugin.fails = False
    scene.rebalance()
    assert scene.sources[-1] is Source.PLAN
    wanted = np.arange(len(cheaper)) % len(scene.members)
    assert (wanted != cheaper).any()
    assert scene.decided.plan.owner.tolist() == wanted.tolist()


@pytest.mark.slow
def test_moves_that_follow_changes_are_counted_anew() -> None:
    scene = Scene()
    for _ in range(REBALANCES):
        scene.rebalance(2)
        change = LiveMember("c", ("t",))
        scene.members = scene.members[:2] if len(scene.members) > 2 else [*scene.members, change]
    assert set(scene.sources) == {Source.PLAN}
