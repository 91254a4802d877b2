"""Which of several instances, each beside a broker, begins a rebalance for an order in a group that its broker assigns,
and when."""

import time
from collections.abc import Mapping

from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    Instances,
    KeptOrders,
    NoTopic,
    Order,
    OrderKind,
    ServedOrders,
)

HEARTBEATS_MISSED = 3
GROUP = "orders"
NOW_MS = int(time.time() * 1000)
AGAIN = Order(OrderKind.REBALANCE, GROUP, "eve", NOW_MS, NOW_MS + 600_000)


class Instance:
    """One instance whose broker has asked it for a plan of the group. `compared`: whether it was the first whenever the
    plan was compared with the orders."""

    def __init__(self, name: str) -> None:
        self.compared: list[bool] = []
        self.begun: list[str] = []
        self.kept, self.instances = KeptOrders(NoTopic(), time.time), Instances(name)
        self.instances.started()
        self.served = ServedOrders(self, self.kept, self.instances)

    def policies(self) -> Mapping[str, str]:
        return {GROUP: "rack-first"}

    def compare(self, _: str, *, first: bool, ended: Mapping[str, str]) -> None:
        del ended
        self.compared.append(first)

    def begin_rebalance(self, _: str, cause: str) -> None:
        self.begun.append(cause)

    def receive(self, *heartbeats: InstanceHeartbeat) -> "Instance":
        for heartbeat in heartbeats:
            self.instances.received(heartbeat)
        return self

    def is_first(self) -> bool:
        self.served.update(())
        return self.compared[-1]


def serving(name: str) -> InstanceHeartbeat:
    return InstanceHeartbeat(name, serves=(GROUP,))


def test_the_first_of_the_living_instances_that_serve_a_group_acts_and_the_next_one_once_it_is_silent() -> None:
    assert Instance("pod-1").receive(serving("pod-2"), serving("pod-1")).is_first()
    second = Instance("pod-2").receive(serving("pod-1"), serving("pod-2"))
    assert not second.is_first()
    second.receive(*[serving("pod-2")] * HEARTBEATS_MISSED)
    assert second.is_first()


def test_an_instance_that_no_heartbeat_names_is_the_first_itself() -> None:
    assert Instance("pod-2").is_first()


def test_a_smaller_instance_that_does_not_serve_the_group_or_would_lead_it_does_not_count() -> None:
    others = (
        InstanceHeartbeat("pod-0", serves=("payments",)),
        InstanceHeartbeat("pod-1", claims=(GROUP,), serves=(GROUP,)),
    )
    assert Instance("pod-2").receive(*others).is_first()


def test_a_group_that_the_process_leads_or_does_not_serve_is_not_compared() -> None:
    leads = Instance("pod-1")
    leads.served.update((GROUP,))
    leads.served.changed((GROUP, "payments"))
    assert leads.compared == []


def test_a_rebalance_that_is_ordered_is_begun_by_the_first_and_withdrawn() -> None:
    first, second = Instance("pod-1"), Instance("pod-2")
    for instance in (first, second):
        instance.receive(serving("pod-1"), serving("pod-2"))
        instance.kept.orders.apply(AGAIN.key, AGAIN)
        instance.served.update(())
    assert (first.begun, second.begun) == ([AGAIN.sentence], [])
    assert first.kept.in_force(OrderKind.REBALANCE, GROUP) is None
    assert second.kept.in_force(OrderKind.REBALANCE, GROUP) is not None, "until the withdrawal is read"
    second.receive(*[serving("pod-2")] * HEARTBEATS_MISSED)
    second.served.update(())
    assert second.begun == [AGAIN.sentence]
