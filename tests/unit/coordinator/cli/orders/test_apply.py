"""`bellwether apply`: what it orders, and what it refuses before anything is written."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.control import NO_END_MS, AppliedPlan, Record
from bellwether_kafka.coordinator.kafka import wire
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import Described
from tests.unit.coordinator.cli.every_command import STATE, plan_document
from tests.unit.coordinator.cli.orders.channel import Channel

KEY = "apply/stable"


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", 3)
        yield cluster


@pytest.fixture
def led(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> Channel:
    """The channel of the group `stable`, which an instance leads."""
    monkeypatch.setattr(wire, "Transport", Described)
    channel.heartbeat(leads=("stable",), policies={"stable": "rack-first"}, orders_for=("stable",))
    return channel


PLAN = plan_document()


def saved(folder: Path, plan: Mapping[str, Any] = PLAN) -> str:
    (folder / "plan.json").write_text(json.dumps(plan))
    return str(folder / "plan.json")


def order_of(records: Mapping[str, Record]) -> AppliedPlan:
    order = records[KEY]
    assert isinstance(order, AppliedPlan)
    return order


@pytest.mark.embedded
def test_a_plan_for_the_present_state_is_ordered_listed_and_withdrawn(led: Channel, tmp_path: Path) -> None:
    ended = led.ordered("apply", saved(tmp_path), "--reason", "review 7", "--wait", "10")
    assert "is applied to stable until its members change; 'bellwether unpin stable --plan' ends that" in ended.stdout
    assert "It is in effect." in ended.stderr
    order = order_of(led.read())
    assert (order.members, order.items) == (("m1",), {"m1": ("orders-0", "orders-1", "orders-2")})
    assert (order.digest, order.expires_ms, order.reason) == (PLAN["digest"], NO_END_MS, "review 7")
    assert (
        f"apply of the plan {PLAN['digest'][:16]} to 'stable' until its members change" in led.ordered("orders").stdout
    )
    assert "There is no order to leave or pause stable" in led.refused("resume", "stable")
    assert "apply of the plan" in led.ordered("unpin", "stable", "--plan").stdout
    assert KEY not in led.read()
    assert "There is no applied plan in stable" in led.refused("unpin", "stable", "--plan")


@pytest.mark.embedded
def test_its_documents_agree_with_the_schemas(led: Channel, tmp_path: Path) -> None:
    file = saved(tmp_path)
    planned = json.loads(led.ordered("apply", file, "--dry-run", "-o", "json").stdout)
    assert (planned["moved"], KEY in led.read()) == (0, False)
    given = json.loads(led.ordered("apply", file, "-o", "json").stdout)
    assert (given["order"]["kind"], given["in_effect"]) == ("apply", None)
    listed = json.loads(led.ordered("orders", "-o", "json").stdout)
    assert [order["items"] for order in listed["orders"]] == [{"m1": ["orders-0", "orders-1", "orders-2"]}]
    (withdrawn,) = json.loads(led.ordered("unpin", "stable", "--all", "-o", "json").stdout)["withdrawn"]
    assert withdrawn["kind"] == "apply"


@pytest.mark.embedded
def test_describe_and_explain_name_it_while_it_is_in_force(led: Channel, tmp_path: Path) -> None:
    led.ordered("apply", saved(tmp_path))
    config = tmp_path / "bellwether.toml"
    config.write_text(
        f'control_topic = "{led.topic}"\n[kafka]\n"bootstrap.servers" = "{led.kafka["bootstrap.servers"]}"\n'
        '[[groups]]\nname = "stable"\n'
    )
    sentence = order_of(led.read()).sentence
    for words in (("describe", "stable"), ("explain", "stable", "orders-1")):
        shown = led.configured(*words, "--config", str(config))
        assert sentence in shown.stdout, shown
    described = json.loads(led.configured("describe", "stable", "--config", str(config), "-o", "json").stdout)
    assert described["shadow"]["orders"] == [sentence]
    explained = json.loads(led.configured("explain", "stable", "m1", "--config", str(config), "-o", "json").stdout)
    assert {tuple(entry["orders"]) for entry in explained} == {(sentence,)}


(M1,) = STATE["members"]


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"members": [M1, M1 | {"member_id": "m2"}]}, "Member m2 is gone."),
        ({"members": []}, "Member m1 is new."),
        ({"members": [M1 | {"topics": ["clicks"]}]}, "Member m1 subscribes to orders instead of clicks."),
        ({"partitions": {"orders": 2}}, "Topic orders has 3 partitions instead of 2."),
        ({"owners": {"orders-0": "m1"}}, "The owner of orders-2 is m1 instead of nobody."),
    ],
    ids=["member-gone", "member-new", "subscription", "partitions", "owners"],
)
def test_a_plan_for_another_state_is_refused_and_the_difference_named(
    led: Channel, tmp_path: Path, changes: dict[str, Any], difference: str
) -> None:
    message = led.refused("apply", saved(tmp_path, plan_document(STATE | changes)))
    assert difference in message
    assert "The plan is not for stable as it is now. Nothing was ordered" in message


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("owners", "reason"),
    [
        ({"orders-7": "m1"}, "Orders-7, to which the plan gives an owner, does not exist."),
        ({"orders-0": "m9"}, "M9, to which the plan gives orders-0, is not in the group."),
    ],
    ids=["item", "owner"],
)
def test_a_plan_that_was_edited_into_an_impossible_one_is_refused(
    led: Channel, tmp_path: Path, owners: Mapping[str, str], reason: str
) -> None:
    assert reason in led.refused("apply", saved(tmp_path, plan_document(owners=owners)))


@pytest.mark.embedded
def test_a_plan_is_refused_where_no_instance_leads_or_the_policy_ignores_it(led: Channel, tmp_path: Path) -> None:
    file = saved(tmp_path)
    led.heartbeat(leads=("stable",), policies={"stable": "kafka"})
    assert "ignores pins, bans, evacuations and applied plans" in led.refused("apply", file)
    led.heartbeat(leads=("another",))
    message = led.refused("apply", file)
    assert "No Bellwether with the group 'stable'" in message
    assert message.endswith("Nothing was ordered.\n"), "there is no --force"


@pytest.mark.embedded
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, channel: Channel) -> None:
    assert "cannot be read: No such file" in channel.run("apply", str(tmp_path / "none")).stderr
    (tmp_path / "text").write_text("owners")
    ended = channel.run("apply", str(tmp_path / "text"))
    assert ended.returncode == Exit.INPUT
    assert "cannot be used" in ended.stderr
