"""Why a rebalance happened, by comparing two decisions; and a group that a policy keeps moving although nothing changes
is noticed, damped and reported."""

import asyncio
import time

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import Decide, JoinedMember
from bellwether_kafka.coordinator.planning import (
    Cause,
    CauseKind,
    ConsumerKind,
    Planner,
    Source,
    cause,
    follows_from_orders,
)
from bellwether_kafka.coordinator.planning.causes import cause_after_return
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, Members, decided_group
from tests.kit.plans import Reader

TWO = {"orders": 2}


A, B = {"a": ("orders",)}, {"b": ("orders",)}


@pytest.mark.parametrize(
    ("before", "after", "kind", "sentence"),
    [
        (A, A | B, CauseKind.JOINED, "b joined"),
        (A | B, A, CauseKind.LEFT, "b left or died"),
        (A, B, CauseKind.EXCHANGED, "b joined, a left or died"),
        (A, {"a": ("orders", "x")}, CauseKind.SUBSCRIPTIONS, "a changed the subscription"),
        (A, A, CauseKind.AGAIN, "a member joined again, nothing changed"),
    ],
)
def test_members(before: Members, after: Members, kind: CauseKind, sentence: str) -> None:
    why = cause(decided_group(before, TWO), decided_group(after, TWO))
    assert (why.kind, why.sentence) == (kind, sentence)
    assert set(why.members) == before.keys() ^ after.keys()


def test_the_first_plan() -> None:
    assert cause(None, decided_group(A, TWO)).sentence == "first plan, for 1 member"


LOAD = "the load of members is uneven, 2 partitions would move"


@pytest.mark.parametrize(
    ("after", "kind", "sentence"),
    [
        (A | B, CauseKind.REQUESTED, LOAD),
        (A, CauseKind.LEFT, "b left or died"),
    ],
)
def test_a_rebalance_that_bellwether_requested_has_its_reason(after: Members, kind: CauseKind, sentence: str) -> None:
    """Only where nothing else explains it: a member that left meanwhile is the better explanation."""
    why = cause(decided_group(A | B, TWO), decided_group(after, TWO), wanted=LOAD)
    assert (why.kind, why.sentence) == (kind, sentence)


def test_the_first_plan_after_a_return_has_the_reason_of_its_request() -> None:
    why = cause_after_return(decided_group(A, TWO), "", decided_group(A, TWO), wanted=LOAD)
    assert (why.kind, why.sentence) == (CauseKind.FIRST, LOAD)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({"orders": 2}, {"orders": 4}, "topic orders went from 2 to 4 partitions"),
        ({}, {"orders": 1}, "topic orders appeared with 1 partition"),
        ({"orders": 2}, {}, "topic orders is gone"),
    ],
)
def test_topics(before: dict[str, int], after: dict[str, int], sentence: str) -> None:
    why = cause(decided_group(A, before), decided_group(A, after))
    assert (why.kind, why.sentence) == (CauseKind.METADATA, sentence)


def test_a_static_member_that_restarted_is_the_same_member() -> None:
    why = cause(decided_group(A, TWO, statics=True), decided_group(A, TWO, statics=True, suffix="-2"))
    assert why.kind is CauseKind.AGAIN


def test_pending_partitions_are_the_reason_of_the_next_rebalance() -> None:
    owned = {"a": (TopicPartition("orders", 0), TopicPartition("orders", 1))}
    first = decided_group(A | B, TWO, protocol="cooperative-sticky", owned=owned)
    assert first.followup
    why = cause(first, decided_group(A | B, TWO, protocol="cooperative-sticky"))
    assert why.kind is CauseKind.PENDING
    assert why.sentence == "1 partition given up by the former owner can be handed out"


def test_members_are_called_by_their_names_and_many_are_counted() -> None:
    many: Members = {f"m{i}": ("orders",) for i in range(9)}
    why = cause(decided_group(A, TWO), decided_group(A | many, TWO), name=str.upper)
    assert why.sentence == "M0, M1, M2, M3 and 5 more joined"


def test_an_order_is_the_cause_and_what_else_has_changed_is_reported_too() -> None:
    why = cause(decided_group(A, TWO), decided_group(A | B, TWO), ordered=("eve has ordered pin of orders-0",))
    assert why.kind is CauseKind.ORDERED
    assert why.sentence == "eve has ordered pin of orders-0; b joined"
    assert cause(None, decided_group(A, TWO), ordered=("eve",)).kind is CauseKind.FIRST


def follows(
    after: Members, *, places: tuple[str, ...] = (), ordered: tuple[str, ...] = (), before: bool = False
) -> bool:
    """Of a group that had the members a and b."""
    had, has = decided_group(A | B, TWO), decided_group(after, TWO)
    return follows_from_orders(cause(had, has, ordered=ordered), had, has, places, before=before)


@pytest.mark.parametrize(
    ("after", "place"),
    [
        pytest.param(A, "member:b", id="a member that is emptied stops"),
        pytest.param(A | B | {"c": ("orders",)}, "member:c", id="it is back under another id"),
    ],
)
def test_the_restart_of_a_member_that_is_evacuated_follows_from_the_order(after: Members, place: str) -> None:
    assert follows(after, places=(place,))
    assert not follows(after), "without an order"
    assert not follows(after, places=("member:a",)), "of another member"
    assert not follows({"c": ("orders",)}, places=(place,)), "others come or go as well"


def test_an_order_and_what_is_handed_over_for_it_follow_from_it() -> None:
    waits = Cause(CauseKind.PENDING, "2 partitions can be handed out")
    had = decided_group(A, TWO)
    assert follows(A | B, ordered=("evacuate a",))
    assert follows_from_orders(waits, had, had, (), before=True)
    assert not follows_from_orders(waits, had, had, ("member:a",), before=False), "a crash before it"
    assert not follows(A | B, places=("member:a",), before=True), "nothing changed"


@pytest.mark.parametrize(
    ("topics", "reason", "kind", "sentence"),
    [
        ({"orders": 4}, "", CauseKind.METADATA, "topic orders went from 2 to 4 partitions"),
        (TWO, "2 partitions have no owner", CauseKind.FIRST, "2 partitions have no owner"),
        (TWO, "", CauseKind.FIRST, "first plan after a return"),
    ],
)
def test_after_a_restart_what_has_changed_since_the_return_is_the_cause(
    topics: dict[str, int], reason: str, kind: CauseKind, sentence: str
) -> None:
    why = cause_after_return(decided_group(A, TWO), reason, decided_group(A, topics))
    assert (why.kind, why.sentence) == (kind, sentence)


# ---- plans that do not settle --------------------------------------------------------------------------------------

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
