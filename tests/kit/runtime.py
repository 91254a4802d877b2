"""Groups that a process runs, in place of the runner, and a runner of a group that is led."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Rule
from bellwether_kafka.coordinator.control import (
    NO_END_MS,
    NO_ORDERS,
    GroupOrders,
    OnRecord,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
)
from bellwether_kafka.coordinator.membership import (
    ActiveRoleChanged,
    Decide,
    DescribeAnswer,
    DescribedMember,
    Event,
    Fatal,
    GroupMembership,
    JoinedMember,
    MembershipConfig,
    MembershipView,
    OrdersInForce,
)
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from bellwether_kafka.coordinator.triggers import Picture
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import API_VERSION, EmbeddedCluster
from tests.kit.membership import ME, P1, Play, plain, thread
from tests.kit.plans import Reader

WORK = ConsumerProtocolAssignment(0, (TopicPartition("in", 0), TopicPartition("in", 1))).encode()
OTHER = plain("other", "app-2")


def working(member: DescribedMember) -> DescribedMember:
    return replace(member, assignment=WORK)


def named(member_id: str, number: int) -> DescribedMember:
    """A thread of an application with client.id=orders-1."""
    return replace(thread(member_id, P1, number), client_id=f"orders-1-StreamThread-{number}-consumer")


LIMIT_S = 30.0


def kafka(brokers: EmbeddedCluster) -> dict[str, str]:
    return {"bootstrap.servers": brokers.bootstrap, **API_VERSION}


def order(kind: OrderKind = OrderKind.LEAVE, seconds: float = 600, target: str = "orders") -> Order:
    now_ms = int(time.time() * 1000)
    return Order(kind, target, "eve", now_ms, now_ms + int(seconds * 1000))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other threads and on brokers
            await asyncio.sleep(0.01)


class Group:
    """One group of an instance: a membership that gets what the controller posts."""

    def __init__(self, *, standby: bool) -> None:
        self.machine = GroupMembership(
            MembershipConfig("orders", instance_id="bellwether", standby=standby, subscribes=True)
        )
        self.posted: list[Event] = []
        self.orders = NO_ORDERS
        self.ordered: list[str] = []
        self.fatal: Fatal | None = None

    @property
    def membership(self) -> MembershipView:
        return self.machine.view

    def post(self, event: Event) -> None:
        self.posted.append(event)
        self.machine.handle(event, 0.0)

    policy = "rack-first"
    rules_refused = ""
    digest = ""

    @property
    def kind(self) -> "Group":
        return self

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.orders.rules

    def follow(self, orders: GroupOrders, news: str) -> None:
        if orders.on_membership != self.orders.on_membership:
            self.post(OrdersInForce(**orders.on_membership))
        if not orders.places_as(self.orders):
            self.ordered.append(news)
        self.orders = orders

    def begin_rebalance(self, order: str) -> None:
        self.ordered.append(order)

    def lead(self) -> None:
        """As if the broker had said so."""
        play = Play(instance_id="bellwether").deciding().planned().synced()
        self.machine = play.machine

    def given(self) -> OrdersInForce | None:
        return next((event for event in reversed(self.posted) if isinstance(event, OrdersInForce)), None)

    def turn(self) -> str:
        return next((e.reason for e in reversed(self.posted) if isinstance(e, ActiveRoleChanged) and e.active), "")


@dataclass
class KeptRecords:
    """Records in memory: what is written can be read at once."""

    records: dict[str, Record] = field(default_factory=dict)
    topic: str = "control"

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None], *_: object) -> None:
        for key, record in self.records.items():
            on_record(key, record)
        on_caught_up()

    def write(self, record: Record) -> None:
        self.records[record.key] = record

    def withdraw(self, key: str) -> None:
        self.records.pop(key, None)

    async def close(self) -> None:
        """Nothing is open."""


CLUSTER = ClusterView.of({"t": [["az1"], ["az2"]] * 2})


OFF_AZ1 = PlacementOrder(OrderKind.EVACUATE, "orders", "*", "rack:az1", "eve", 0, NO_END_MS, "new disks")


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
        await self.rebalance(play.machine.view.generation)

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


class DescribingBrokers:
    """Answer with one of `answers` after the other, and then with the last; an error is raised. `asked` are the groups
    of all requests."""

    def __init__(self, *answers: DescribeAnswer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.asked.append(group_id)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def picture(member: MembershipView | None = None, now: float = 0.0, policy: str = "range", **fields: Any) -> Picture:
    """What triggers see of a group of plain consumers, which is at rest unless `member` says otherwise."""
    view = member if member is not None else Play().stable().machine.view
    return Picture(member=view, now=now, wall_ms=int(1000 * now), policy=policy, **fields)
