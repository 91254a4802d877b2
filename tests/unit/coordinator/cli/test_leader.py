"""What `plan` and `simulate` go by is what the leader goes by: capacities, weights, standing orders, stages."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.shared import Decision, Memory, Rule, Weights
from bellwether_kafka.coordinator.cli.leader import given_orders
from bellwether_kafka.coordinator.control import (
    NoControlTopicError,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
)
from bellwether_kafka.coordinator.settings import Settings, load
from bellwether_kafka.coordinator.topology import write_topology
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.commands import ShownGroups, bellwether, consumers
from tests.kit.plans import ORDERS, decided, member
from tests.kit.streams import SHOP, Thread, group, led

NOW_MS = 1_000
PAIR = (member("a-1", None), member("b-1", None))


def settings(folder: Path, text: str) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(f'[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[[groups]]\n{text}')
    return load(file, environ={})


@pytest.fixture
def file(tmp_path: Path, groups: ShownGroups) -> Path:
    """The configuration file of the group `g`, which is shown."""
    groups.show(consumers(1, 1, 1, 0))
    return tmp_path / "bellwether.toml"


def leader(groups: ShownGroups, file: Path, text: str, before: str = "") -> Policy:
    """What `plan` goes by with these settings of the group."""
    file.write_text(f'{before}[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[[groups]]\n{text}')
    ended = bellwether("plan", "g", "--config", str(file))
    assert ended.returncode == 0, ended
    return groups.policies["g"]


def placed(policy: Policy) -> dict[str, int]:
    """Partition -> position of its owner, by what the leader would send to two members that hold nothing."""
    raw = decided(*PAIR).raw
    decision: Decision[PartitionPlan] = decide(raw, ORDERS, Memory.empty(), policy, NOW_MS)
    return {"-".join(map(str, ORDERS.name(flat))): int(owner) for flat, owner in enumerate(decision.plan.owner)}


def pin(target: str, item: str, where: str, expires_ms: int) -> PlacementOrder:
    return PlacementOrder(OrderKind.PIN, target, item, where, "me", 0, expires_ms)


def test_weights_and_capacities_count(groups: ShownGroups, file: Path) -> None:
    by_load = leader(groups, file, 'name = "g"\npolicy = "load-aware"\ncapacity = { a = 3.0, b = 1.0 }')
    heavy = Weights({TopicPartition("orders", p): 8.0 for p in range(4)})
    owners = sorted(placed(by_load.with_weights(heavy)).values())
    assert owners == [0, 0, 0, 1], "three quarters of the load for three quarters of the capacity"
    assert sorted(placed(leader(groups, file, 'name = "g"')).values()) == [0, 0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["kafka", "rack-first", "load-aware"])
def test_orders_in_force_are_followed_under_any_policy(policy: str, groups: ShownGroups, file: Path) -> None:
    text = f'name = "g"\npolicy = "{policy}"'
    assert set(placed(leader(groups, file, text)).values()) == {0, 1}
    ban = PlacementOrder(OrderKind.BAN, "g", "*", "member:a-1", "me", 0, 2**60)
    groups.records = {ban.key: ban}
    assert set(placed(leader(groups, file, text)).values()) == {1}


def test_orders_of_others_and_those_that_ended_do_not_count(groups: ShownGroups, file: Path) -> None:
    orders = (
        pin("g", "orders-0", "rack:az1", 2**60),
        pin("g", "orders-1", "rack:az1", NOW_MS),
        pin("other", "orders-2", "rack:az1", 2**60),
        Order(OrderKind.PAUSE, "g", "me", 0, 2**60),
    )
    groups.records = {record.key: record for record in orders}
    assert leader(groups, file, 'name = "g"').rules == (Rule("pin", "orders-0", "rack:az1"),)


@pytest.mark.slow
def test_orders_that_cannot_be_read_are_named_if_a_topic_is(groups: ShownGroups, file: Path) -> None:
    """Where nobody has ever ordered anything, nothing is left out."""
    for before, said in (("", ""), ('control_topic = "other"\n', "left out: There is no control topic 'other'.")):
        groups.records = {} if before else None
        assert leader(groups, file, 'name = "g"', before).rules == ()
        ended = bellwether("plan", "g", "--config", str(file))
        assert said in " ".join(ended.stderr.split())
        assert bool(ended.stderr) is bool(said)


class Channel:
    """In the place of a control topic, one pin in the default one."""

    def __init__(self, _: object, topic: str) -> None:
        self.topic = topic

    def read(self) -> dict[str, Record]:
        if self.topic != "bellwether-control":
            raise NoControlTopicError(f"There is no control topic '{self.topic}'.")
        order = pin("g", "orders-0", "rack:az1", 2**60)
        return {order.key: order}

    def unmakable(self) -> str:
        return "" if self.topic == "makable" else f"grant CREATE on Topic '{self.topic}'."


def test_doctor_reads_orders_where_commands_write_them_and_names_the_right_that_a_leader_lacks(tmp_path: Path) -> None:
    observed, led = settings(tmp_path, 'name = "g"'), settings(tmp_path, 'name = "g"\nmode = "lead"')
    given = given_orders(observed, cast("Any", Channel))
    assert given is not None
    assert [order.key for order in given.in_force("g")] == ["pin/g/orders-0"]
    for topic, unread in (
        ("other", "grant CREATE on Topic 'other'."),
        ("makable", "There is no control topic 'makable'."),
    ):
        given = given_orders(observed.model_copy(update={"control_topic": topic}), cast("Any", Channel))
        assert given is not None
        assert (given.unread, dict(given.records)) == (unread, {})

    class Missing(Channel):
        def __init__(self, _: object, _topic: str) -> None:
            self.topic = "missing"

    assert given_orders(observed, cast("Any", Missing)) is None, "one that only observes makes no topic"
    lacking = given_orders(led, cast("Any", Missing))
    assert lacking is not None
    assert lacking.unread == "grant CREATE on Topic 'missing'."
    assert given_orders(led.model_copy(update={"control_topic": ""}), cast("Any", Missing)) is None


@pytest.mark.parametrize(("policy", "followed"), [("streams-ha", True), ("kafka", False)])
def test_an_application_is_planned_under_orders_where_its_leader_follows_them(
    policy: str, followed: bool, groups: ShownGroups, file: Path
) -> None:
    topology = file.with_name("shop.yaml")
    topology.write_text(write_topology(replace(SHOP, application_id="g")))
    ban = PlacementOrder(OrderKind.BAN, "g", "*", "rack:az1", "me", 0, 2**60)
    groups.records = {ban.key: ban}
    leader(
        groups,
        file,
        f'name = "g"\nkind = "streams"\ntopology = "{topology}"\npolicy = "{policy}"',
    )
    application = groups.applications["g"]
    assert application is not None
    threads = group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"))
    decision = led(threads, assignors=application.assignors, policy=policy)
    assert (set(decision.plan.target.active.tolist()) == {1}) is followed
