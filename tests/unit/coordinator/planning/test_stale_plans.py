"""A plan goes to the rebalance for which it was made, or nowhere: wherever it comes from, and however late."""

import asyncio
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, RefusalError, Rule
from bellwether_kafka.coordinator.planning import ConsumerKind, Planned, Planner, Solver, Source
from bellwether_kafka.coordinator.planning.inspection import misdirected, valid
from bellwether_kafka.coordinator.planning.solver import Child
from tests.kit.applications import under
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

    async def solve(self, call: Callable[[Any], Any], _limit_s: float) -> Any:
        self._late.append(call(self._policy))
        return self._late[max(0, len(self._late) - 2)]


class Raising(OneBehind):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def solve(self, call: Callable[[Any], Any], _limit_s: float) -> Any:
        raise self.error


class Elsewhere(OneBehind):
    """Plans with a copy of the policy, as the process does."""

    async def solve(self, call: Callable[[Any], Any], _limit_s: float) -> Any:
        return pickle.loads(pickle.dumps(call))(self._policy)  # noqa: S301 - its own bytes


def planner_with(solver: Any) -> Planner[Any]:
    return Planner("orders", ConsumerKind(Reader(), Policy()), solver=solver)


async def test_the_plan_of_another_generation_is_not_sent() -> None:
    planner = planner_with(OneBehind())
    assert (await planner.plan(order(1))).source is Source.PLAN
    planned = await planner.plan(order(2))
    assert planned.source is Source.CHEAP
    assert planned.reasons == ("plan: the plan was made for generation 1, not for 2",)
    assert planned.decision.raw.generation == 2


async def test_the_plan_of_other_members_is_neither_sent_nor_compared() -> None:
    planner = planner_with(OneBehind())
    await planner.plan(order(1))
    planned = await planner.plan(order(2, members=THREE))
    assert {member for member, _ in planned.decision.assignments} == {m.member_id for m in THREE}
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
        planned = await planner_with(Raising(error)).plan(order(1))
    assert planned.source is Source.CHEAP
    assert planned.reasons == (f"plan: {type(error).__name__}: {error}",)
    assert [line["event"] for line in lines] == ["plan_failed"]


async def test_orders_are_carried_out_wherever_the_plan_is_made() -> None:
    """Under orders foreign code once planned in Bellwether's own process, where nothing can end it."""
    planner, made = planner_with(Elsewhere()), Planner("orders", ConsumerKind(Reader(), Policy()))
    for each in (planner, made):
        under(each, (Rule("ban", "*", "member:b", "ops empties b"),))
    planned, here = await planner.plan(order(1)), await made.plan(order(1))
    assert planned.source is Source.PLAN
    assert planned.decision.assignments == here.decision.assignments
    assert planned.decision.assignments != (await planner_with(None).plan(order(1))).decision.assignments


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
    decision = (await planner_with(None).plan(order(1))).decision
    assert misdirected(decision.raw, decision) == ()
    assert misdirected(decision.raw, wrong(decision))

    async def attempt() -> Planned[Any]:
        return Planned(wrong(decision))

    with pytest.raises(RefusalError):
        await valid(decision.raw, attempt)


async def test_an_applied_plan_is_checked_like_any_other() -> None:
    """The check does not ask where a plan was made."""

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


def test_a_late_answer_is_never_taken_for_that_to_the_next_message() -> None:
    pipe, theirs = multiprocessing.Pipe()
    child = Child(None, pipe)  # type: ignore[arg-type]  # a process that answers late
    theirs.send((0, b"ready, too late"))
    theirs.send((1, b"of this message"))
    assert child.ask(b"first") == b"of this message"
    theirs.send((1, b"of the first, again"))
    theirs.send((2, b"of the second"))
    assert child.ask(b"second") == b"of the second"
    assert [theirs.recv(), theirs.recv()] == [(1, b"first"), (2, b"second")]


async def test_a_solver_that_is_closed_or_cannot_be_sent_wants_nothing() -> None:
    assert Solver("subject", always=True).wants(1, 1)
    assert not Solver("subject", always=False).wants(1, 1)
    assert not Solver(lambda: None, always=True).wants(1, 1)
    closed = Solver("subject", always=True)
    await closed.close()
    assert not closed.wants(1, 1)


class Stuck:
    """A process whose answer does not arrive, until it is killed."""

    ready, killed = True, False

    def __init__(self, error: Exception | None) -> None:
        self.process, self.error, self.ended = self, error, threading.Event()
        self.loaded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.loaded.set_result(True)

    def call(self, _: object) -> object:
        if self.error is None:
            self.ended.wait()
            raise EOFError
        raise self.error

    def kill(self) -> None:
        self.killed = True
        self.ended.set()


@pytest.mark.parametrize(
    ("error", "raised"), [(None, TimeoutError), (EOFError(), RefusalError), (BrokenPipeError(), RefusalError)]
)
async def test_a_process_whose_answer_did_not_arrive_is_killed_and_another_one_started(
    error: Exception | None, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    solver, stuck, started = Solver("subject", always=True), Stuck(error), list[object]()

    def start() -> None:
        if solver._child is None:
            started.append(solver._child)

    solver._child = stuck  # type: ignore[assignment]  # a process that answers nothing
    monkeypatch.setattr(solver, "warm", start)
    with pytest.raises(raised):
        await solver.solve(str, 0.01 if error is None else 60)
    assert (stuck.killed, started) == (True, [None])
