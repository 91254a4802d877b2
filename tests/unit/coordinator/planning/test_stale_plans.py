"""A plan goes to the rebalance for which it was made, or nowhere: wherever it comes from, and however late."""

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, RefusalError
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, Solver, Source
from bellwether_kafka.coordinator.planning.fallback import Proposal, valid
from bellwether_kafka.coordinator.planning.inspection import misdirected
from bellwether_kafka.coordinator.planning.solver_worker import Job
from tests.kit.plans import MEMBERS, Reader, joined, order

THREE = (*MEMBERS, joined("c", "t"))


class OneBehind:
    """In a solver's place: answers each job with the answer to the one before, as a queue that lost a message does."""

    def __init__(self) -> None:
        self.always = True
        self._policy = Policy()
        self._late: list[Any] = []

    def wants(self, *_: int) -> bool:
        return True

    async def solve(self, job: Job[Any], _limit_s: float) -> Any:
        self._late.append(job.make(self._policy, job.request))
        return self._late[max(0, len(self._late) - 2)]


class Raising(OneBehind):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def solve(self, job: Job[Any], _limit_s: float) -> Any:
        raise self.error


def planner_with(solver: Any) -> Planner[Any]:
    return Planner("orders", ConsumerKind(Reader(), Policy()), solver=solver)


async def test_the_plan_of_another_generation_is_not_sent() -> None:
    planner = planner_with(OneBehind())
    assert (await planner.plan(order(1))).chosen.source is Source.PLAN
    chosen = (await planner.plan(order(2))).chosen
    assert chosen.source is Source.CHEAP
    assert chosen.reasons == ("plan: the plan was made for generation 1, not for 2",)
    assert chosen.decision.raw.generation == 2


async def test_the_plan_of_other_members_is_neither_sent_nor_compared() -> None:
    planner = planner_with(OneBehind())
    await planner.plan(order(1))
    chosen = (await planner.plan(order(2, members=THREE))).chosen
    assert {member for member, _ in chosen.decision.assignments} == {m.member_id for m in THREE}
    with pytest.raises(RefusalError, match="made for"):
        await planner.compare(order(2))
    with pytest.raises(RefusalError, match="made for"):
        await planner.would_change(order(3), ())


@pytest.mark.parametrize(
    "error", [pickle.UnpicklingError("invalid load key"), KeyError("a defect"), MemoryError(), ValueError("no plan")]
)
async def test_whatever_a_plan_raises_the_cheaper_one_is_sent(error: Exception) -> None:
    """The bytes of another job's answer raised UnpicklingError, with which the generation had no plan at all."""
    with capture_logs() as lines:
        chosen = (await planner_with(Raising(error)).plan(order(1))).chosen
    assert chosen.source is Source.CHEAP
    assert chosen.reasons == (f"plan: {type(error).__name__}: {error}",)
    assert [line["event"] for line in lines] == ["plan_failed"]


def another_group(decision: Decision[Any]) -> Decision[Any]:
    return replace(decision, raw=replace(decision.raw, group_id="payments"))


def another_generation(decision: Decision[Any]) -> Decision[Any]:
    return replace(decision, raw=replace(decision.raw, generation=0))


def another_protocol(decision: Decision[Any]) -> Decision[Any]:
    return replace(decision, raw=replace(decision.raw, protocol="roundrobin"))


def another_member(decision: Decision[Any]) -> Decision[Any]:
    return replace(decision, raw=replace(decision.raw, members=decision.raw.members[:-1]))


def another_subscription(decision: Decision[Any]) -> Decision[Any]:
    *others, last = decision.raw.members
    return replace(decision, raw=replace(decision.raw, members=(*others, replace(last, metadata=b"older"))))


def a_member_without_an_answer(decision: Decision[Any]) -> Decision[Any]:
    return replace(decision, assignments=decision.assignments[:-1])


@pytest.mark.parametrize(
    "wrong",
    [
        another_group,
        another_generation,
        another_protocol,
        another_member,
        another_subscription,
        a_member_without_an_answer,
    ],
)
async def test_each_difference_from_the_answer_to_joingroup_refuses_a_plan(
    wrong: Callable[[Decision[Any]], Decision[Any]],
) -> None:
    decision = (await planner_with(None).plan(order(1))).chosen.decision
    assert misdirected(decision.raw, decision) == ()
    assert misdirected(decision.raw, wrong(decision))

    async def attempt() -> Proposal[Any]:
        return Proposal(wrong(decision), ())

    with pytest.raises(RefusalError):
        await valid(decision.raw, attempt)


async def test_an_applied_plan_is_checked_like_any_other() -> None:
    """Plans under an operator's rules are made in a thread: the check does not ask where a plan was made."""

    class Stale(Reader):
        """Gives every plan the input of the first one: any cause of a plan for the wrong rebalance."""

    class Kind(ConsumerKind):
        first: Any = None

        async def read(self, *asked: Any) -> Any:
            self.first = self.first or await super().read(*asked)
            return self.first

    planner = Planner("orders", Kind(Stale(ClusterView.of({"t": [["a"]] * 4})), Policy()))
    await planner.plan(order(1))
    with pytest.raises(RefusalError, match=r"plan: the plan was made for generation 1.*cheaper plan: the plan was"):
        await planner.plan(order(2))


LATE_ANSWERS = """
import os, pickle
from bellwether_kafka.coordinator.planning.solver_worker import HEADER

source, out = os.fdopen(0, "rb"), os.fdopen(1, "wb")
late = pickle.dumps((False, "of the former job"))
while True:
    number, size = HEADER.unpack(source.read(HEADER.size))
    source.read(size)
    out.write(HEADER.pack(max(1, number - 1), len(late)) + late)
    out.flush()
"""


@pytest.mark.slow
async def test_an_answer_to_another_job_is_never_returned_and_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.planning.solver.WORKER", LATE_ANSWERS)
    solver = Solver("subject", always=True)
    try:
        with pytest.raises(RefusalError):
            await solver.solve(Job(str, None), 30)
    finally:
        await solver.close()


async def test_a_solver_that_is_closed_or_cannot_be_sent_wants_nothing() -> None:
    assert Solver("subject", always=True).wants(1, 1)
    assert not Solver("subject", always=False).wants(1, 1)
    assert not Solver(lambda: None, always=True).wants(1, 1)
    closed = Solver("subject", always=True)
    await closed.close()
    assert not closed.wants(1, 1)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), EOFError(), BrokenPipeError()])
async def test_a_process_whose_answer_did_not_arrive_is_killed_and_another_one_started(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    solver = Solver("subject", always=True)

    async def exchanged(_: bytes) -> bytes:
        raise error

    monkeypatch.setattr(solver, "_exchanged", exchanged)
    monkeypatch.setattr(solver, "_kill", lambda: done.append("killed"))
    monkeypatch.setattr(solver, "warm", lambda: done.append("started"))
    with pytest.raises(type(error)):
        await solver._answered(b"job")
    assert done == ["killed", "started"]
