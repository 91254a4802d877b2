"""Looks that ask within a moment share requests, and none of them pays for another's trouble."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest

from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import FetchedOffsets, TransportError
from bellwether_kafka.coordinator.membership import (
    Code,
    CoordinatorAnswer,
    DescribeAnswer,
    DescribedMember,
    Failure,
    FindCoordinator,
    Node,
    RequestFailed,
)

GROUPS_MAX = 50
LARGE_BYTES = 100_000

T = TypeVar("T")
FIRST, SECOND = Node(1, "a", 9092), Node(2, "b", 9092)


class Brokers:
    """Two nodes in the transport's place. Groups with an even length of name are on the first; what is in
    `fails` is answered with that."""

    def __init__(self, version: tuple[int, ...] = (4, 0)) -> None:
        self.broker_version = version
        self.asked: list[Any] = []
        self.coordinators_found: list[str] = []
        self.fails: dict[Any, TransportError] = {}
        self.errors: dict[str, int] = {}
        self.large: set[str] = set()
        self.unreadable: set[str] = set()
        self.refused = 0

    async def request(self, command: FindCoordinator) -> CoordinatorAnswer | RequestFailed:
        self.coordinators_found.append(command.group_id)
        if command.group_id == "unfound":
            return CoordinatorAnswer(0, Code.COORDINATOR_NOT_AVAILABLE)
        return CoordinatorAnswer(0, 0, FIRST if len(command.group_id) % 2 == 0 else SECOND)

    async def ask(self, request: Any) -> Any:
        self.asked.append(request)
        if request.node in self.fails:
            raise self.fails[request.node]
        match request:
            case wire.FetchOffsets():
                if request.group_id == "bad":
                    raise TransportError(Failure.DISCONNECTED, "gone")
                return FetchedOffsets({t: [7] * n for t, n in request.topics.items()})
            case wire.FetchOffsetsOfMany():
                groups = request.groups.items()
                return {g: FetchedOffsets({t: [7] * n for t, n in topics.items()}) for g, topics in groups}
        if self.unreadable & {*request.group_ids}:
            raise TransportError(Failure.MALFORMED, "unreadable")
        return {g: self.described(g) for g in request.group_ids if g != "left-out"}

    def described(self, group: str) -> DescribeAnswer:
        data = b"x" * (LARGE_BYTES + 1 if group in self.large else 1)
        members = (DescribedMember("m", None, data, b""),)
        return DescribeAnswer(0, self.errors.get(group, 0), "Stable", members=members)


def groups_of(brokers: Brokers) -> Describer:
    return Describer(cast("Any", brokers))


def together(*work: Coroutine[Any, Any, T]) -> list[T | BaseException]:
    async def all_of() -> list[T | BaseException]:
        return await asyncio.gather(*work, return_exceptions=True)

    return asyncio.run(all_of())


def described(groups: Describer, *names: str) -> list[Any]:
    return together(*(groups.describe_group(name) for name in names))


def test_groups_of_one_node_are_described_by_one_request_and_nodes_are_remembered() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    names = [f"group-{number}" for number in range(10, 10 + GROUPS_MAX + 1)]
    groups.learn(FIRST, [*names, "even"])
    assert all(answer.state == "Stable" for answer in described(groups, *names, "even"))
    assert [(request.node, len(request.group_ids)) for request in brokers.asked] == [(FIRST, GROUPS_MAX), (FIRST, 2)]
    described(groups, *names)
    assert brokers.coordinators_found == []


def test_a_group_that_a_node_has_listed_need_not_be_found() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    groups.learn(SECOND, ["even"])
    described(groups, "even")
    assert (brokers.coordinators_found, [request.node for request in brokers.asked]) == ([], [SECOND])


def test_a_node_that_is_silent_is_the_trouble_of_its_own_groups_only() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    brokers.fails[SECOND] = TransportError(Failure.TIMED_OUT, "no answer")
    there, silent, unfound = described(groups, "even", "odd", "unfound")
    assert (there.state, str(silent), unfound.error) == ("Stable", "no answer", Code.COORDINATOR_NOT_AVAILABLE)
    brokers.coordinators_found.clear()
    described(groups, "even", "odd")
    assert brokers.coordinators_found == ["odd"], "its coordinator node may be another one by now"


@pytest.mark.parametrize("how", ["it says so", "it is gone"])
def test_a_group_whose_node_has_moved_is_asked_of_the_new_one_at_once(how: str) -> None:
    """The offsets of a plan would else not be known after a broker has restarted."""

    class Moved(Brokers):
        async def ask(self, request: Any) -> Any:
            self.errors = {"even": Code.NOT_COORDINATOR} if request.node == SECOND and how == "it says so" else {}
            return await super().ask(request)

    brokers = Moved()
    if how == "it is gone":
        brokers.fails[SECOND] = TransportError(Failure.DISCONNECTED, "gone")
    groups = groups_of(brokers)
    groups.learn(SECOND, ["even"])
    (answer,) = described(groups, "even")
    assert (answer.state, answer.error, brokers.coordinators_found) == ("Stable", 0, ["even"])


def test_a_group_that_has_moved_is_searched_again() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    brokers.errors["even"] = Code.NOT_COORDINATOR
    (answer,) = described(groups, "even")
    assert answer.error == Code.NOT_COORDINATOR
    described(groups, "even")
    assert brokers.coordinators_found == ["even", "even"]


def test_an_answer_that_cannot_be_read_spoils_no_other_group() -> None:
    brokers = Brokers()
    brokers.unreadable = {"oddly"}
    fine, broken, also = described(groups_of(brokers), "one", "oddly", "two")
    assert (fine.state, also.state, str(broken)) == ("Stable", "Stable", "unreadable")


def test_a_group_that_an_answer_leaves_out_is_reported_so() -> None:
    (left_out,) = described(groups_of(Brokers()), "left-out")
    assert str(left_out) == "the broker's answer leaves the group out"


def test_committed_offsets_of_several_groups_come_with_one_request() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    groups.learn(FIRST, ["g1", "g2"])
    answers = together(
        groups.committed("g1", {"t": 2}), groups.committed("g2", {"t": 1}), groups.committed("g1", {"u": 1})
    )
    assert answers == [FetchedOffsets({"t": [7, 7]}), FetchedOffsets({"t": [7]}), FetchedOffsets({"u": [7]})]
    (request,) = brokers.asked
    assert request.groups == {"g1": {"t": 2, "u": 1}, "g2": {"t": 1}}


def test_brokers_before_3_0_are_asked_for_the_offsets_of_one_group_at_a_time() -> None:
    brokers = Brokers((2, 8))
    groups = groups_of(brokers)
    fine, bad = together(groups.committed("good", {"t": 1}), groups.committed("bad", {"t": 1}))
    assert (fine, str(bad)) == (FetchedOffsets({"t": [7]}), "gone")
    assert [request.group_id for request in brokers.asked] == ["good", "bad"]


def test_brokers_that_cannot_take_several_groups_in_a_request_are_asked_for_one_at_a_time() -> None:
    brokers = Brokers()
    unsupported = TransportError(Failure.UNSUPPORTED, "OffsetFetch ends at version 7")
    ask = brokers.ask

    async def old(request: Any) -> Any:
        brokers.refused += isinstance(request, wire.FetchOffsetsOfMany)
        if isinstance(request, wire.FetchOffsetsOfMany):
            raise unsupported
        return await ask(request)

    brokers.ask = old  # type: ignore[method-assign]  # of brokers that do not know one request
    groups = groups_of(brokers)
    assert together(groups.committed("good", {"t": 1})) == [FetchedOffsets({"t": [7]})]
    assert together(groups.committed("other", {"t": 2})) == [FetchedOffsets({"t": [7, 7]})]
    assert ([request.group_id for request in brokers.asked], brokers.refused) == (["good", "other"], 1)


def test_an_error_of_bellwether_reaches_everybody_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Callable[..., Any]:
        raise ZeroDivisionError

    groups = groups_of(Brokers())
    monkeypatch.setattr(wire, "DescribeMany", broken)
    assert [type(error) for error in described(groups, "a", "b")] == [ZeroDivisionError, ZeroDivisionError]


class SilentNode(Brokers):
    """The second node never answers."""

    async def ask(self, request: Any) -> Any:
        if request.node == SECOND:
            await asyncio.Event().wait()
        return await super().ask(request)


async def first_of(healthy: Coroutine[Any, Any, T], *silent: Coroutine[Any, Any, object]) -> T:
    """The answer for a group whose broker answers, while others of the same batch wait for one that does not."""

    async def scenario() -> T:
        waiting = [asyncio.create_task(each) for each in silent]
        answer = await healthy
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return answer

    return await asyncio.wait_for(scenario(), 30)


async def test_a_group_is_described_and_its_offsets_fetched_while_the_node_of_others_is_silent() -> None:
    groups = groups_of(SilentNode())
    assert (await first_of(groups.describe_group("even"), groups.describe_group("odd"))).state == "Stable"
    groups = groups_of(SilentNode())
    fetched = await first_of(groups.committed("even", {"t": 1}), groups.committed("odd", {"t": 1}))
    assert fetched.offsets == {"t": [7]}


async def test_a_node_that_is_searched_for_in_vain_delays_no_group_whose_node_is_known() -> None:
    class Unfindable(Brokers):
        async def request(self, command: FindCoordinator) -> Any:
            await asyncio.Event().wait()

    groups = groups_of(Unfindable())
    groups.learn(FIRST, ["even"])
    assert (await first_of(groups.describe_group("even"), groups.describe_group("odd"))).state == "Stable"


async def rounds(groups: Describer, *names: str) -> None:
    for _ in range(3):
        await asyncio.gather(*(groups.describe_group(name) for name in names), return_exceptions=True)


@pytest.mark.parametrize("which", ["unreadable", "large"])
async def test_a_group_that_would_harm_or_delay_others_is_asked_alone_from_then_on(which: str) -> None:
    brokers = Brokers()
    setattr(brokers, which, {"the group"})
    groups, names = groups_of(brokers), ("first", "a", "the group", "b")
    groups.learn(FIRST, names)
    await rounds(groups, *names)
    asked = [request.group_ids for request in brokers.asked if "the group" in request.group_ids]
    assert sum(len(group_ids) > 1 for group_ids in asked) == 1


async def test_a_request_that_fails_does_so_for_its_own_groups_alone() -> None:
    class Failing(Brokers):
        async def ask(self, request: Any) -> Any:
            if "g-060" in request.group_ids:
                raise TransportError(Failure.TIMED_OUT, "no answer in time")
            return await super().ask(request)

    groups, names = groups_of(Failing()), [f"g-{n:03d}" for n in range(2 * GROUPS_MAX)]
    groups.learn(FIRST, names)
    answers = await asyncio.gather(*map(groups.describe_group, names), return_exceptions=True)
    failed = [name for name, answer in zip(names, answers, strict=True) if isinstance(answer, TransportError)]
    assert failed == names[GROUPS_MAX:]


async def test_members_are_removed_at_the_node_that_is_kept() -> None:
    class Removing(Brokers):
        async def ask(self, request: Any) -> Any:
            self.asked.append(request)
            return wire.RemovedMembers(0, {member: 0 for member, _ in request.members})

    brokers = Removing()
    groups = groups_of(brokers)
    groups.learn(SECOND, ["g"])
    assert (await groups.remove_from("g", {"m": "it has died"})).errors == {"m": 0}
    (request,) = brokers.asked
    assert (request.node, request.members, brokers.coordinators_found) == (SECOND, (("m", "it has died"),), [])
