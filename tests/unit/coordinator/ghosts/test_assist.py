"""The watch over one group: what it removes, and that Bellwether comes before that."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.ghosts.assist import GhostWatch
from bellwether_kafka.coordinator.ghosts.proof import GhostOptions
from bellwether_kafka.coordinator.kafka import RemovedMembers, RemoveMembers
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId

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
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]

    async def remove_members(self, command: RemoveMembers) -> RemovedMembers:
        member_ids = [member_id for member_id, _ in command.members]
        self.done.append(("removed", member_ids))
        return RemovedMembers(0, dict.fromkeys(member_ids, 0))


def seen(state: str, *members: DescribedMember) -> DescribeAnswer:
    return DescribeAnswer(0, 0, state, "consumer", "stream", members)


def test_bellwether_may_come_into_the_rebalance_before_a_ghost_is_removed_from_it() -> None:
    """The broker elects the next leader at the removal, among those that are in the group then."""
    brokers = Brokers(seen("Stable", thread("old")), seen("PreparingRebalance", thread("old"), thread("new")))

    async def comes(shown: DescribeAnswer, dead: tuple[str, ...]) -> None:
        await asyncio.sleep(0)
        assert [m.member_id for m in shown.members] == ["old", "new"]
        brokers.done.append(("came before", dead))

    async def story() -> None:
        watch = GhostWatch("shop", cast("Any", brokers), GhostOptions(), None, OBSERVERS, comes)
        await watch._turn()
        assert brokers.done == []
        await watch._turn()

    asyncio.run(story())
    assert brokers.done == [("came before", ("old",)), ("removed", ["old"])]


def test_without_a_membership_ghosts_are_removed_at_once() -> None:
    brokers = Brokers(seen("Stable", thread("old")), seen("PreparingRebalance", thread("old"), thread("new")))

    async def story() -> None:
        watch = GhostWatch("shop", cast("Any", brokers), GhostOptions(), None, OBSERVERS)
        await watch._turn()
        await watch._turn()

    asyncio.run(story())
    assert brokers.done == [("removed", ["old"])]
