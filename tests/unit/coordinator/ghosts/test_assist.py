"""The watch over one group: what it removes, and that Bellwether comes before that."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.ghosts import GhostOptions, GhostWatch
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka.wire import RemovedMembers, RemoveMembers, TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.virtual_time import run_in_virtual_time

RESTING_INTERVAL_S = 0.5
TROUBLE_INTERVAL_S = 1.0

PROCESS = "00112233-4455-6677-8899-aabbccddeeff"
CLIENT = f"shop-{PROCESS}-StreamThread-1-consumer"
NODE = membership.Node(1, "broker", 9092)
OBSERVERS = cast("Any", SimpleNamespace(on_note=(), on_ghost=(), on_seen=()))


def thread(member_id: str) -> DescribedMember:
    data = SubscriptionInfo(process_id=ProcessId.of_bytes(bytes.fromhex(PROCESS.replace("-", "")))).encode()
    metadata = ConsumerProtocolSubscription(1, ("orders",), data).encode()
    return DescribedMember(member_id, None, metadata, b"", CLIENT, "/10.0.0.1")


class Brokers:
    """Describe the group in these states, one after the other; `done` is what was asked of them beside that."""

    def __init__(self, *shown: DescribeAnswer) -> None:
        self.shown = list(shown)
        self.done: list[tuple[str, Sequence[str]]] = []

    async def request(self, command: membership.Request) -> membership.Answer:
        if isinstance(command, membership.FindCoordinator):
            return membership.CoordinatorAnswer(0, 0, NODE)
        raise AssertionError(command)

    async def ask(self, request: Any) -> Any:
        assert request.node == NODE
        if isinstance(request, RemoveMembers):
            return await self.remove_members(request)
        shown = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return dict.fromkeys(request.group_ids, shown)

    async def remove_members(self, command: RemoveMembers) -> RemovedMembers:
        member_ids = [member_id for member_id, _ in command.members]
        self.done.append(("removed", member_ids))
        return RemovedMembers(0, dict.fromkeys(member_ids, 0))


def seen(state: str, *members: DescribedMember) -> DescribeAnswer:
    return DescribeAnswer(0, 0, state, "consumer", "stream", members)


async def test_bellwether_may_come_into_the_rebalance_before_a_ghost_is_removed_from_it() -> None:
    """The broker elects the next leader at the removal, among those that are in the group then."""
    brokers = Brokers(seen("Stable", thread("old")), seen("PreparingRebalance", thread("old"), thread("new")))

    async def comes(shown: DescribeAnswer, dead: tuple[str, ...]) -> bool:
        await asyncio.sleep(0)
        assert [m.member_id for m in shown.members] == ["old", "new"]
        brokers.done.append(("came before", dead))
        return True

    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(), None, OBSERVERS, comes)
    await watch._turn()
    assert brokers.done == []
    await watch._turn()
    assert brokers.done == [("came before", ("old",)), ("removed", ["old"])]


async def test_a_group_that_brokers_do_not_show_is_refreshed_again_soon() -> None:
    """Without an end to the wait nobody would be removed from it any more."""
    brokers = Brokers(DescribeAnswer(0, membership.Code.COORDINATOR_NOT_AVAILABLE))
    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(), None, OBSERVERS, None)
    assert await watch._turn() == TROUBLE_INTERVAL_S


async def test_without_a_membership_ghosts_are_removed_at_once() -> None:
    brokers = Brokers(seen("Stable", thread("old")), seen("PreparingRebalance", thread("old"), thread("new")))
    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(), None, OBSERVERS)
    await watch._turn()
    await watch._turn()
    assert brokers.done == [("removed", ["old"])]


# ---- what is stated to have ended ------------------------------------------------------------------------------------


def done_after(in_front: bool, members: tuple[str, ...], static: tuple[str, ...]) -> list[tuple[str, Sequence[str]]]:
    """What is done where the processes of these members are stated to have ended."""
    brokers = Brokers(seen("Stable", thread("a"), thread("b")))

    async def comes(shown: DescribeAnswer, dead: tuple[str, ...]) -> bool:
        brokers.done.append(("came before", dead))
        return in_front

    async def scenario() -> None:
        watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(remove=False), None, OBSERVERS, comes)
        running = asyncio.create_task(watch.run())
        await asyncio.sleep(0.05)
        assert brokers.done == []
        watch.stopped(members, static, "its process has ended")
        await asyncio.sleep(RESTING_INTERVAL_S / 2)
        running.cancel()

    run_in_virtual_time(scenario())
    return brokers.done


def test_what_is_stated_to_have_ended_is_removed_at_once_after_bellwether_has_come() -> None:
    assert done_after(True, ("a", "gone"), ()) == [("came before", ("a",)), ("removed", ["a"])]


def test_a_static_member_is_removed_only_where_bellwether_may_lead_by_that() -> None:
    """It replaces itself, and keeps what it had."""
    assert done_after(True, (), ("a",)) == [("came before", ("a",)), ("removed", ["a"])]
    assert done_after(False, ("b",), ("a",)) == [("came before", ("a", "b")), ("removed", ["b"])]


class Failing(Brokers):
    """The first removals are answered with these errors: of the request, then of a member."""

    def __init__(self, *errors: RemovedMembers | TransportError) -> None:
        super().__init__(seen("Stable", thread("a"), thread("b")))
        self.errors = list(errors)

    async def remove_members(self, command: RemoveMembers) -> Any:
        answer = await super().remove_members(command)
        error = self.errors.pop(0) if self.errors else answer
        if isinstance(error, TransportError):
            raise error
        return error


@pytest.mark.parametrize(
    "error",
    [
        RemovedMembers(membership.Code.NOT_COORDINATOR, {}),
        TransportError(membership.Failure.TIMED_OUT, "no answer in time"),
        RemovedMembers(0, {"a": membership.Code.COORDINATOR_NOT_AVAILABLE}),
    ],
)
async def test_a_stated_death_is_kept_until_the_member_is_removed(
    error: RemovedMembers | TransportError,
) -> None:
    """The coordinator had moved: the statement was forgotten, and the group waited for the session to end."""
    moved = isinstance(error, RemovedMembers) and error.error == membership.Code.NOT_COORDINATOR
    fails = 4 if moved else 2  # another node is asked at once
    brokers, done = Failing(*[error] * fails), list[str]()
    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(remove=False), None, OBSERVERS)
    watch.stopped(["a"], [], "its process has ended", lambda: done.append("a"))
    for turn in range(3):
        assert done == [], turn
        await watch._turn()
    assert brokers.done == [("removed", ["a"])] * (fails + 1)
    await watch._turn()
    assert (done, len(brokers.done)) == (["a"], fails + 1), "once, and not for ever"


async def test_a_stated_death_is_done_when_the_member_is_not_shown_any_more() -> None:
    brokers, done = Brokers(seen("Stable", thread("b"))), list[str]()
    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(remove=False), None, OBSERVERS)
    watch.stopped(["a"], [], "its process has ended", lambda: done.append("a"))
    await watch._turn()
    assert (done, brokers.done) == (["a"], [])


async def test_a_leader_at_rest_tries_again_to_remove_what_it_could_not() -> None:
    """In a generation that had been seen, a watch waits for an event of the membership: up to five seconds."""
    brokers = Failing(TransportError(membership.Failure.TIMED_OUT, "no answer in time"))
    led = SimpleNamespace(
        membership=SimpleNamespace(state=membership.State.STABLE, generation=3, member_id="bw", unclear_since=None)
    )
    watch = GhostWatch("shop", Describer(cast("Any", brokers)), GhostOptions(remove=False), cast("Any", led), OBSERVERS)
    watch.stopped(["a"], [], "its process has ended")
    await watch._turn()
    assert watch._generation_seen is None
    await watch._turn()
    assert watch._generation_seen == 3
    assert len(brokers.done) == 2
