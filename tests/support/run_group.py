"""A group that a runner leads."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Rule
from bellwether_kafka.coordinator.control import NO_END_MS, GroupOrders, PlacementKind, PlacementOrder
from bellwether_kafka.coordinator.membership import Decide, Event, JoinedMember, MembershipConfig
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.unit.coordinator.membership.playbook import ME, Play
from tests.unit.coordinator.planning.consumer_scenes import Reader

CLUSTER = ClusterView.of({"t": [["az1"], ["az2"]] * 2})


OFF_AZ1 = PlacementOrder(PlacementKind.EVACUATE, "orders", "*", "rack:az1", "eve", 0, NO_END_MS, "new disks")


ORDER = OFF_AZ1.sentence


def joined(name: str, rack: str) -> JoinedMember:
    return JoinedMember(name, None, ConsumerProtocolSubscription(3, ("t",), generation_id=-1, rack_id=rack).encode())


MEMBERS = (JoinedMember(ME, None, ConsumerProtocolSubscription(1, ()).encode()), joined("a", "az1"), joined("b", "az2"))


class Resting:
    """A group that is led and at rest."""

    def __init__(self) -> None:
        nothing: Any = None
        reader: Any = Reader(CLUSTER)
        planner = Planner("orders", ConsumerKind(reader, Policy()))
        config = MembershipConfig("orders", subscribes=True)
        self.driver = MembershipDriver(config, nothing, asyncio.get_running_loop())
        watch: Any = SimpleNamespace(follow=lambda *_, **__: None)
        self.runner = GroupRunner(self.driver, nothing, planner, watch, (), (), (), nothing)
        self.planner = planner
        self.orders_read = asyncio.Event()
        self.orders_read.set()
        planner.rules_in_force = self._rules

    async def _rules(self) -> tuple[Rule, ...]:
        await self.orders_read.wait()
        return self.runner.orders.rules

    def order(self, *orders: PlacementOrder, news: str = ORDER) -> None:
        self.runner.follow(GroupOrders(placements=orders), news)

    async def begin(self) -> None:
        play = Play().joining().joined(*MEMBERS, protocol="range").planned().synced()
        self.runner.membership = play.machine.view
        await self.rebalance(play.machine.generation)

    async def rebalance(self, generation: int, wanted: str = "") -> Any:
        await self.planner.plan(Decide(generation, "range", MEMBERS, ME, time.monotonic() + 5, wanted=wanted))
        return self.planner.delivered(generation)

    def after_a_return(self) -> Decide:
        generation = self.runner.membership.generation
        return Decide(generation, "range", MEMBERS, ME, time.monotonic() + 5, dry=True)

    async def reported(self, order: PlacementOrder) -> list[Event]:
        self.order(order, news=order.sentence)
        assert self.runner._carrying_out is not None
        await self.runner._carrying_out
        return await self.posted()

    async def first_posted(self) -> list[Event]:
        """The first event that will be posted."""
        return [await self.driver._events.get()]

    async def posted(self) -> list[Event]:
        """To the membership, since this was asked last."""
        await asyncio.sleep(0)
        events = self.driver._events
        return [events.get_nowait() for _ in range(events.qsize())]
