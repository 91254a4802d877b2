"""Through the runner of a group: what reaches the membership is a plan of the generation that asked, for its members,
also while the process that plans hangs or comes late."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator.membership import Decide, DecisionFailed, DecisionReady, JoinedMember, State
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, solver
from tests.kit.membership import ME, Play, member
from tests.kit.plans import Reader
from tests.kit.runtime import CLUSTER, MEMBERS, Resting, joined
from tests.unit.coordinator.planning.plugins_gone_wrong import Hangs, Plugin

THREE = (*MEMBERS, joined("c", "az2"))
START_S = 60.0


class Led(Resting):
    """A group that is planned in a process of its own."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.solver = solver.Solver(policy, always=True)
        self.planner = self.runner._planner = Planner(
            "orders", ConsumerKind(Reader(CLUSTER), policy), solver=self.solver
        )

    async def planned(self, generation: int, members: tuple[JoinedMember, ...], seconds: float) -> DecisionReady:
        await self.runner._plan(Decide(generation, "range", members, ME, time.monotonic() + seconds))
        (event,) = await self.posted()
        assert isinstance(event, DecisionReady), event
        assert event.generation == generation
        assert sorted(member_id for member_id, _ in event.assignments) == sorted(m.member_id for m in members)
        return event


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_S):
        while not condition():  # noqa: ASYNC110 - a process does not report when it is there
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_solver_that_hangs_delays_no_generation_beyond_its_deadline_and_answers_none_of_the_next() -> None:
    group = Led(Policy("hangs", {"hangs": Hangs("hangs")}))
    try:
        group.solver.warm()
        await until(lambda: group.solver.ready)
        await group.planned(1, MEMBERS, seconds=4)
        await group.planned(2, THREE, seconds=4)
    finally:
        await group.solver.close()


@pytest.mark.slow
async def test_a_solver_that_starts_during_a_generation_answers_the_later_ones_with_their_own_plans() -> None:
    """Its late "ready" was taken for the answer to the first job, and each answer for that to the next job."""
    group = Led(Policy("honest", {"honest": Plugin("honest")}))
    try:
        group.solver.warm()
        await group.planned(1, MEMBERS, seconds=2)
        await group.planned(2, MEMBERS, seconds=START_S)
        await group.planned(3, THREE, seconds=START_S)
        assert group.planner._planned is not None
        assert group.planner._planned.decision.warnings == ()
    finally:
        await group.solver.close()


async def test_a_defect_while_a_plan_is_made_ends_in_an_answer_to_the_membership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Resting()

    async def defect(_: Decide) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(group.planner, "plan", defect)
    await group.runner._plan(Decide(7, "range", MEMBERS, ME, time.monotonic() + 5))
    assert await group.posted() == [DecisionFailed(7, "KeyError: 'a defect'")]


def test_the_membership_leaves_rather_than_send_a_plan_for_other_members() -> None:
    play = Play().joining().joined(member(ME), member("a"), member("b"), protocol="range")
    play.send(DecisionReady(1, (("a", b"plan of a"), (ME, b"nothing"))))
    assert play.machine.view.state is State.LEAVING
