"""`bellwether release`: for a group whose members have stopped, without an expiry."""

import json
import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.orders import write
from bellwether_kafka.coordinator.control import NO_END_MS
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.commands import bellwether
from tests.kit.runtime import Group
from tests.unit.coordinator.cli.orders.channel import LIMIT_S, process_without_a_topic

SERVERS = f"release-{os.getpid()}.test:9092"  # other processes of this machine may run the same tests
TO = ("--bootstrap", SERVERS)
WORKS = ObservedMember("a-1", None, "app", "/h", owned=(TopicPartition("t", 0),))
IDLE = ObservedMember("b-1", None, "app", "/h")
BELLWETHER = ObservedMember("bw-1", "bellwether", CLIENT_ID, "/h")


@pytest.fixture
def group() -> Iterator[Group]:
    with process_without_a_topic(SERVERS) as led:
        yield led


def shown(monkeypatch: pytest.MonkeyPatch, *members: ObservedMember) -> None:
    """What brokers show of the group."""
    seen = Observation("orders", "classic", "Stable" if members else "Empty", "", 0, members)
    monkeypatch.setattr(write.OrderService, "at_rest", lambda *_: seen)


def release(*more: str) -> subprocess.CompletedProcess[str]:
    return bellwether("release", "orders", *more, *TO)


def ordered(group: Group) -> str:
    """The sentence of the release that has reached the group, "" for none."""
    limit = time.monotonic() + LIMIT_S
    while (orders := group.given()) is None:
        assert time.monotonic() < limit
        time.sleep(0.01)
    return orders.release


@pytest.mark.parametrize("members", [(), (BELLWETHER,)], ids=["nobody", "Bellwether"])
def test_a_group_without_members_is_released_until_members_join(
    monkeypatch: pytest.MonkeyPatch, group: Group, members: tuple[ObservedMember, ...]
) -> None:
    shown(monkeypatch, *members)
    ended = release("--reason", "reset")
    assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
    assert "Bellwether leaves orders and stays out until members join it" in ended.stdout
    assert "bellwether resume orders" in ended.stdout
    assert ordered(group).endswith("has ordered release of 'orders' (reset)")
    listed = bellwether("orders", *TO).stdout
    assert "has ordered release of 'orders' (reset), until members join" in listed


def test_the_order_as_a_document_has_no_expiry(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    shown(monkeypatch)
    document = json.loads(release("-o", "json").stdout)["order"]
    assert (document["kind"], document["target"], document["expires_ms"]) == ("release", "orders", NO_END_MS)
    assert ordered(group)


@pytest.mark.parametrize(
    ("members", "message"),
    [((WORKS,), "1 member is in orders"), ((WORKS, IDLE, BELLWETHER), "2 members are in orders")],
    ids=["one", "two"],
)
def test_a_group_with_members_is_not_released_unless_that_is_forced(
    monkeypatch: pytest.MonkeyPatch, group: Group, members: tuple[ObservedMember, ...], message: str
) -> None:
    shown(monkeypatch, *members)
    ended = release()
    assert ended.returncode == Exit.INPUT
    assert message in ended.stderr
    assert "bellwether leave orders" in ended.stderr
    assert "Nothing was ordered" in ended.stderr
    assert "release" not in bellwether("orders", *TO).stdout
    assert release("--force").returncode == Exit.DONE
    assert ordered(group)


def test_a_resume_withdraws_it(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    shown(monkeypatch)
    release()
    assert ordered(group)
    assert bellwether("resume", "orders", *TO).returncode == Exit.DONE
    limit = time.monotonic() + LIMIT_S
    while ordered(group):
        assert time.monotonic() < limit
        time.sleep(0.01)
    again = bellwether("resume", "orders", *TO)
    assert again.returncode == Exit.INPUT
    assert "no order to leave or pause orders, or to release it" in again.stderr
