"""`bellwether release`: for a group whose members have stopped, without an expiry."""

import json
import subprocess

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.orders import service
from bellwether_kafka.coordinator.control import NO_END_MS
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.coordinator.cli.orders.channel import Channel

RELEASE = "release/orders"
WORKS = ObservedMember("a-1", None, "app", "/h", owned=(TopicPartition("t", 0),))
IDLE = ObservedMember("b-1", None, "app", "/h")
BELLWETHER = ObservedMember("bw-1", "bellwether", CLIENT_ID, "/h")

pytestmark = pytest.mark.embedded


def shown(monkeypatch: pytest.MonkeyPatch, *members: ObservedMember) -> None:
    """What brokers show of the group."""
    seen = Observation("orders", "classic", "Stable" if members else "Empty", "", 0, members)
    monkeypatch.setattr(service.OrderService, "at_rest", lambda *_: seen)


def release(channel: Channel, *more: str) -> subprocess.CompletedProcess[str]:
    channel.heartbeat()
    return channel.run("release", "orders", *more)


@pytest.mark.parametrize("members", [(), (BELLWETHER,)], ids=["nobody", "Bellwether"])
def test_a_group_without_members_is_released_until_members_join(
    monkeypatch: pytest.MonkeyPatch, channel: Channel, members: tuple[ObservedMember, ...]
) -> None:
    shown(monkeypatch, *members)
    ended = release(channel, "--reason", "reset")
    assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
    assert "Bellwether leaves orders and stays out until members join it" in ended.stdout
    assert "bellwether resume orders" in ended.stdout
    listed = channel.run("orders").stdout
    assert "has ordered release of 'orders' (reset), until members join" in listed


def test_the_order_as_a_document_has_no_expiry(monkeypatch: pytest.MonkeyPatch, channel: Channel) -> None:
    shown(monkeypatch)
    document = json.loads(release(channel, "-o", "json").stdout)["order"]
    assert (document["kind"], document["target"], document["expires_ms"]) == ("release", "orders", NO_END_MS)
    assert RELEASE in channel.read()


@pytest.mark.parametrize(
    ("members", "message"),
    [((WORKS,), "1 member is in orders"), ((WORKS, IDLE, BELLWETHER), "2 members are in orders")],
    ids=["one", "two"],
)
def test_a_group_with_members_is_not_released_unless_that_is_forced(
    monkeypatch: pytest.MonkeyPatch, channel: Channel, members: tuple[ObservedMember, ...], message: str
) -> None:
    shown(monkeypatch, *members)
    ended = release(channel)
    assert ended.returncode == Exit.INPUT
    assert message in ended.stderr
    assert "bellwether leave orders" in ended.stderr
    assert "Nothing was ordered" in ended.stderr
    assert "release" not in channel.run("orders").stdout
    assert release(channel, "--force").returncode == Exit.DONE
    assert RELEASE in channel.read()


def test_a_resume_withdraws_it(monkeypatch: pytest.MonkeyPatch, channel: Channel) -> None:
    shown(monkeypatch)
    release(channel)
    assert RELEASE in channel.read()
    assert channel.run("resume", "orders").returncode == Exit.DONE
    assert RELEASE not in channel.read()
    again = channel.run("resume", "orders")
    assert again.returncode == Exit.INPUT
    assert "no order to leave or pause orders, or to release it" in again.stderr
