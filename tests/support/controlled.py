"""What a controller is given: members, groups, a control topic."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import NO_ORDERS, GroupOrders, Order, OrderKind, Record
from bellwether_kafka.coordinator.control.topic import OnRecord
from bellwether_kafka.coordinator.membership import (
    ActiveRoleChanged,
    DescribedMember,
    Event,
    Fatal,
    GroupMembership,
    MembershipConfig,
    MembershipView,
    OrdersInForce,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support.described_members import P1, plain, thread
from tests.support.embedded_brokers import EmbeddedCluster
from tests.support.embedded_transport import API_VERSION
from tests.unit.coordinator.membership.playbook import Play

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
class Kept:
    """Records in memory: what is written can be read at once."""

    records: dict[str, Record] = field(default_factory=dict)
    topic: str = "control"

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        for key, record in self.records.items():
            on_record(key, record)
        on_caught_up()

    def write(self, record: Record) -> None:
        self.records[record.key] = record

    def withdraw(self, key: str) -> None:
        self.records.pop(key, None)

    async def close(self) -> None:
        """Nothing is open."""
