"""What `plan` and `simulate` go by is what the leader goes by: capacities, weights, standing orders, stages."""

from pathlib import Path
from typing import Any, cast

import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, decide
from bellwether_kafka.assignors.shared import Decision, Memory, Rule, UnknownNameError, Weights
from bellwether_kafka.coordinator.cli import leader as leader_module
from bellwether_kafka.coordinator.cli.leader import configured, given_orders, rules_in_force, rules_of
from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    NoControlTopicError,
    Order,
    OrderKind,
    PlacementKind,
    PlacementOrder,
    Record,
)
from bellwether_kafka.coordinator.control.local import LocalProcess
from bellwether_kafka.coordinator.settings import Leader, Settings, load
from bellwether_kafka.coordinator.topology import write_topology
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.assignors.streams.world import SHOP, Thread, group, led
from tests.unit.coordinator.web.test_picture import CLUSTER, decided, member

NOW_MS = 1_000
PAIR = (member("a-1", None), member("b-1", None))


def settings(folder: Path, text: str) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(f'[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[[groups]]\n{text}')
    return load(file, environ={})


def placed(leader: Leader) -> dict[str, int]:
    """Partition -> position of its owner, by what the leader would send to two members that hold nothing."""
    raw = decided(*PAIR).raw
    decision: Decision[PartitionPlan] = decide(raw, CLUSTER, Memory.empty(), leader.policy, NOW_MS)
    return {"-".join(map(str, CLUSTER.name(flat))): int(owner) for flat, owner in enumerate(decision.plan.owner)}


def pin(target: str, item: str, where: str, expires_ms: int) -> PlacementOrder:
    return PlacementOrder(PlacementKind.PIN, target, item, where, "me", 0, expires_ms)


def test_weights_and_capacities_count(tmp_path: Path) -> None:
    by_load = settings(tmp_path, 'name = "g"\npolicy = "load-aware"\ncapacity = { a = 3.0, b = 1.0 }')
    heavy = Weights({TopicPartition("orders", p): w for p, w in enumerate((8.0, 8.0, 8.0, 8.0))})
    weighed = placed(configured(by_load, "g", weights=heavy))
    assert sorted(weighed.values()) == [0, 0, 0, 1], "three quarters of the load for three quarters of the capacity"
    assert sorted(placed(configured(settings(tmp_path, 'name = "g"'), "g")).values()) == [0, 0, 1, 1]


def test_orders_in_force_are_followed_under_any_policy(tmp_path: Path) -> None:
    plain = settings(tmp_path, 'name = "g"')
    rules = (Rule("ban", "*", "member:a-1"),)
    for name in (None, "rack-first", "load-aware"):
        assert set(placed(configured(plain, "g", name, rules=rules)).values()) == {1}
        assert set(placed(configured(plain, "g", name)).values()) == {0, 1}
    with pytest.raises(UnknownNameError, match="nonsense"):
        configured(plain, "g", "nonsense")


def test_orders_of_others_and_those_that_ended_do_not_count() -> None:
    paused = Order(OrderKind.PAUSE, "g", "me", 0, 10 * NOW_MS)
    orders = (
        pin("g", "orders-0", "rack:az1", 2 * NOW_MS),
        pin("g", "orders-1", "rack:az1", NOW_MS),
        pin("other", "orders-2", "rack:az1", 2 * NOW_MS),
    )
    records = {record.key: record for record in (*orders, paused)}
    assert rules_of(records, "g", NOW_MS) == (Rule("pin", "orders-0", "rack:az1"),)


class Channel:
    """In the place of a control topic, one pin in the default one."""

    def __init__(self, _: object, topic: str) -> None:
        self.topic = topic

    def read(self) -> dict[str, Record]:
        if self.topic != "bellwether-control":
            raise NoControlTopicError(f"There is no control topic '{self.topic}'.")
        order = pin("g", "orders-0", "rack:az1", 2**60)
        return {order.key: order}


def test_where_no_topic_is_named_orders_are_those_of_the_order_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = Rule("pin", "orders-0", "rack:az1")
    assert [rule.item for rule in rules_in_force(settings(tmp_path, 'name = "g"'), "g", cast("Any", Channel))] == [
        rule.item
    ]
    named = settings(tmp_path, 'name = "g"').model_copy(update={"control_topic": "other"})
    assert rules_in_force(named, "g", cast("Any", Channel)) == ()
    assert "are left out: There is no control topic 'other'." in capsys.readouterr().err


def test_where_nobody_has_ever_ordered_anything_nothing_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "DEFAULT_TOPIC", "none")
    assert rules_in_force(settings(tmp_path, 'name = "g"'), "g", cast("Any", Channel)) == ()
    assert capsys.readouterr().err == ""


def test_doctor_reads_orders_where_commands_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "local_processes", lambda _: [])
    unnamed = settings(tmp_path, 'name = "g"')
    given = given_orders(unnamed, "g", cast("Any", Channel))
    assert given is not None
    assert [order.key for order in given.in_force("g")] == ["pin/g/orders-0"]
    named = given_orders(unnamed.model_copy(update={"control_topic": "other"}), "g", cast("Any", Channel))
    assert named is not None
    assert (named.unread, dict(named.records)) == ("There is no control topic 'other'.", {})
    monkeypatch.setattr(leader_module, "DEFAULT_TOPIC", "none")
    assert given_orders(unnamed, "g", cast("Any", Channel)) is None


def test_doctor_reads_orders_of_a_process_on_this_machine_that_has_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = {record.key: record for record in (InstanceHeartbeat("a", leads=("g",)), pin("g", "t", "rack:a", 2**60))}
    process = LocalProcess("bellwether-1", "127.0.0.1:1", records)
    monkeypatch.setattr(leader_module, "local_processes", lambda _: [process])
    given = given_orders(settings(tmp_path, 'name = "g"'), "g", cast("Any", None))
    assert given is not None
    assert given.records == records


@pytest.mark.parametrize(("policy", "followed"), [("streams-ha", True), ("kafka", False)])
def test_an_application_is_planned_under_orders_where_its_leader_follows_them(
    tmp_path: Path, policy: str, followed: bool
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(write_topology(SHOP))
    text = f'name = "shop"\nkind = "streams"\ntopology = "{file}"\npolicy = "{policy}"'
    leader = configured(settings(tmp_path, text), "shop", rules=(Rule("ban", "*", "rack:az1"),))
    assert leader.application is not None
    threads = group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"))
    decision = led(threads, assignors=leader.application.assignors, policy=policy)
    assert (set(decision.plan.target.active.tolist()) == {1}) is followed
