"""What `groups`, `describe` and `plan` say of groups in every condition, for people."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.cli.look import BROKER, MEMBER, NOBODY, US
from bellwether_kafka.coordinator.kafka.describe_groups import ListedGroup
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, Node
from bellwether_kafka.coordinator.membership.rules import subscription
from tests.measure.demo.embedded_brokers import EmbeddedCluster
from tests.unit.coordinator.cli.in_process import bellwether
from tests.unit.coordinator.cli.test_every_command import GROUPS, Described

pytestmark = pytest.mark.embedded

SIDECAR = DescribedMember("bellwether-1", "bellwether", subscription(("orders",)), b"", "bellwether", "/h")
OTHERS = {
    "empty": DescribeAnswer(0, 0, "Empty", "consumer"),
    "led": DescribeAnswer(0, 0, "Stable", "consumer", "range", (*GROUPS["stable"].members, SIDECAR)),
    "connect": DescribeAnswer(0, 0, "Stable", "connect", "sessioned"),
}


class AllKinds(Described):
    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return OTHERS[group_id] if group_id in OTHERS else await super().describe_group(group_id)

    async def list_groups(self, node: Node) -> tuple[ListedGroup, ...]:
        others = (ListedGroup(name, one.protocol_type, one.state, "classic") for name, one in OTHERS.items())
        return *await super().list_groups(node), *others


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 3)
        yield cluster


@pytest.fixture
def bootstrap(brokers: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(kafka, "Transport", AllKinds)
    return brokers.bootstrap


def said(*arguments: str, bootstrap: str) -> str:
    ended = bellwether(*arguments, "--bootstrap", bootstrap, COLUMNS="250")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_groups_names_who_assigns_in_each(bootstrap: str) -> None:
    listed = json.loads(said("groups", "-o", "json", bootstrap=bootstrap))
    assert {group["group_id"]: group["assigned_by"] for group in listed} == {
        "connect": MEMBER,
        "converted": f"{BROKER} (consumer)",
        "empty": NOBODY,
        "led": US,
        "rebalancing": MEMBER,
        "stable": MEMBER,
    }
    table = said("groups", bootstrap=bootstrap)
    (row,) = [line for line in table.splitlines() if " led " in line]
    assert US in row


def test_a_group_is_shown_as_rebalancing_while_it_is(bootstrap: str) -> None:
    assert "rebalancing" in row_of("m1", said("describe", "rebalancing", bootstrap=bootstrap))
    assert "it is PreparingRebalance" in said("describe", "rebalancing", bootstrap=bootstrap)
    at_rest = row_of("m1", said("describe", "stable", bootstrap=bootstrap))
    assert "orders: 0-2" in at_rest
    assert "rebalancing" not in at_rest


def row_of(member: str, shown: str) -> str:
    (row,) = [line for line in shown.splitlines() if f" {member} " in line]
    return row


@pytest.mark.parametrize("command", [("plan",), ("explain",), ("simulate", "--add", "1")], ids=lambda c: c[0])
def test_a_plan_that_nobody_could_carry_out_is_called_hypothetical(command: tuple[str, ...], bootstrap: str) -> None:
    name, *options = command
    shown = said(name, "converted", *options, bootstrap=bootstrap)
    assert shown.startswith("Hypothetical: ")
    assert "This is what Bellwether would do if it could." in shown
    assert "Hypothetical" not in said(name, "stable", *options, bootstrap=bootstrap)


def test_json_of_a_plan_says_whether_it_is_hypothetical(bootstrap: str) -> None:
    for group, expected in (("converted", True), ("stable", False)):
        assert json.loads(said("plan", group, "-o", "json", bootstrap=bootstrap))["hypothetical"] is expected


def test_lags_are_shown_by_partition_and_what_is_unknown_is_no_number(bootstrap: str) -> None:
    """The group has read 3 of 5 records of orders-0 and is beyond the end of orders-1."""
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer(quiet)
    for _ in range(5):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({**quiet, "group.id": "stable"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 3), TopicPartition("orders", 1, 9)], asynchronous=False)
    consumer.close()
    shown = said("describe", "stable", bootstrap=bootstrap)
    assert "2 and 2 unknown" in row_of("m1", shown)
    assert row_of("orders-0", shown).replace("│", "").split() == ["orders-0", "3", "5", "2", *"----", "unknown"]
    assert "orders-1: the committed offset 9 is beyond the end 0" in shown
    found = json.loads(said("describe", "stable", "-o", "json", bootstrap=bootstrap))
    assert [(p["committed"], p["lag"]) for p in found["lag_report"]["partitions"]] == [(3, 2), (9, None), (None, None)]
    assert (found["lag"], found["unknown_lags"]) == (2, 2)
