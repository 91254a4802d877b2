"""What is wrong with who has what is said by every command that looks at a group, on embedded brokers."""

import json
from collections.abc import Iterator

import pytest

from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import GROUPS, Described, bellwether
from tests.kit.observed import tp

pytestmark = pytest.mark.embedded


def member(name: str, topic: str, *owned: str) -> DescribedMember:
    message = ConsumerProtocolSubscription(version=1, topics=(topic,)).encode()
    return DescribedMember(name, None, message, ConsumerProtocolAssignment(0, tp(*owned)).encode(), name, "/h")


def led_by_another(*members: DescribedMember) -> DescribeAnswer:
    return DescribeAnswer(0, 0, "Stable", "consumer", "range", members)


WRONG = led_by_another(
    member("a", "orders", "orders-0", "orders-1", "orders-9", "pay-0"), member("b", "orders", "orders-1", "orders-2")
)
TWO = led_by_another(member("billing", "orders", "orders-0"), member("mail", "pay", "pay-0"))


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 4)
        cluster.create_topic("pay", 1)
        yield cluster.bootstrap


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "Transport", Described)
    monkeypatch.setitem(GROUPS, "wrong", WRONG)
    monkeypatch.setitem(GROUPS, "two", TWO)


@pytest.mark.parametrize("command", ["describe", "doctor", "assess"])
def test_a_wrong_assignment_is_reported(command: str, bootstrap: str) -> None:
    message = bellwether(command, "wrong", "--bootstrap", bootstrap).stdout
    assert "Partitions have two owners or more: orders-1 (a, b)." in message
    assert "partitions that do not exist: orders-9 (a; orders has 4)" in message
    assert "topics to which they do not subscribe: pay-0 (a)" in message


@pytest.mark.parametrize("command", ["describe", "doctor", "assess"])
def test_two_applications_under_one_group_id_are_reported(command: str, bootstrap: str) -> None:
    message = bellwether(command, "two", "--bootstrap", bootstrap).stdout
    assert "two applications under one group id" in message
    assert "billing (orders) and mail (pay)" in message


def test_the_list_of_groups_says_what_their_members_show(bootstrap: str) -> None:
    message = bellwether("groups", "--bootstrap", bootstrap).stdout
    assert "wrong: Partitions have two owners or more: orders-1 (a, b)." in message
    assert "wrong: Members have partitions that do not exist: orders-9 (a; orders has 4)." in message
    assert "two: This looks like two applications under one group id" in message
    assert "stable: " not in message
    rows = json.loads(bellwether("groups", "-o", "json", "--bootstrap", bootstrap).stdout)
    kinds = {row["group"]: row["anomalies"] and [cell["kind"] for cell in row["anomalies"]] for row in rows}
    assert kinds["wrong"] == ["two_owners", "no_such_partition", "not_subscribed"]
    assert (kinds["two"], kinds["stable"]) == (["two_applications"], [])
    assert (kinds["rebalancing"], kinds["converted"]) == (None, None), "what is not shown is not nothing"


def test_documents_have_the_kinds(bootstrap: str) -> None:
    ended = bellwether("describe", "wrong", "-o", "json", "--bootstrap", bootstrap)
    kinds = ["two_owners", "no_such_partition", "not_subscribed"]
    assert [entry["kind"] for entry in json.loads(ended.stdout)["anomalies"]] == kinds
    (row,) = json.loads(bellwether("top", "wrong", "--once", "-o", "json", "--bootstrap", bootstrap).stdout)
    assert [cell["kind"] for cell in row["anomalies"]] == kinds
    wide = bellwether("top", "wrong", "--once", "-o", "wide", "--bootstrap", bootstrap).stdout
    assert "two owners" in " ".join(wide.split())
