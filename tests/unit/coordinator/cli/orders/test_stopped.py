"""The statement that a process has ended: to whom it is made, whom it names, and what is refused."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.cli.orders.restart import members_of
from bellwether_kafka.coordinator.control import InstanceHeartbeat, Stopped, decode, encode, lead_is_wanted
from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import bellwether

PROCESS = "00112233-4455-6677-8899-aabbccddeeff"
HEARTBEAT = InstanceHeartbeat("pod-1", claims=("shop",), at_ms=1_000)


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


def member(member_id: str, instance_id: str | None = None, client_id: str = "") -> ObservedMember:
    return ObservedMember(member_id, instance_id, client_id or member_id.partition("_")[0], "/10.0.0.1")


SEEN = Observation(
    "shop",
    "classic",
    "Stable",
    "stream",
    0,
    (
        member("t1_1", client_id=f"shop-{PROCESS}-StreamThread-1-consumer"),
        member("t2_1", client_id=f"shop-{PROCESS}-StreamThread-2-consumer"),
        member("app-1-1_9", "app-1-1", "other"),
        member("abc_1"),
        member("abd_1"),
    ),
)


@pytest.mark.parametrize(
    ("name", "members_meant"),
    [
        (PROCESS, ["t1_1", "t2_1"]),
        ("app-1-1", ["app-1-1_9"]),
        ("abc_1", ["abc_1"]),
        ("ab", []),
        ("nobody", []),
    ],
)
def test_a_process_is_named_by_its_id_and_all_its_members_are_meant(name: str, members_meant: list[str]) -> None:
    assert [m.member_id for m in members_of(SEEN, name)] == members_meant


@pytest.mark.parametrize(
    ("heartbeats", "now_ms", "wanted"),
    [
        ((HEARTBEAT,), 2_000, True),
        ((HEARTBEAT,), 60_000, False),
        ((HEARTBEAT, replace(HEARTBEAT, instance="pod-2", claims=(), leads=("shop",))), 2_000, False),
        ((replace(HEARTBEAT, claims=("other",)),), 2_000, False),
        ((), 2_000, False),
    ],
)
def test_the_lead_is_wanted_while_an_instance_reports_that_it_is_to_lead(
    heartbeats: tuple[InstanceHeartbeat, ...], now_ms: int, wanted: bool
) -> None:
    assert lead_is_wanted("shop", {heartbeat.key: heartbeat for heartbeat in heartbeats}, now_ms) is wanted


def test_a_statement_is_read_as_it_was_written() -> None:
    record = Stopped("shop", ("a",), ("b",), "ann@host", 1, 2, "a restart")
    assert decode(*encode(record)) == record
    assert record.sentence == "its process has ended, as ann@host has stated (a restart)"


@pytest.mark.embedded
def test_a_statement_that_nobody_would_act_upon_is_refused(brokers: EmbeddedCluster) -> None:
    brokers.create_topic("control-stopped", 1)
    words = ["debug", "stopped", "shop", "member:a", "--bootstrap", brokers.bootstrap, "--topic", "control-stopped"]
    ended = bellwether(*words)
    assert ended.returncode == 2, ended.stderr
    assert "No Bellwether has reported that it is to lead 'shop' and does not" in ended.stderr
    ended = bellwether(*words[:3], "rack:az1", *words[4:])
    assert "names no member" in ended.stderr


def test_it_is_valid_for_a_minute() -> None:
    now_ms = int(time.time() * 1000)
    key, value = encode(Stopped("shop", (), ("b",), "ann", now_ms, now_ms + 60_000))
    assert key == b"stopped/shop/b"
    assert json.loads(value)["expires_ms"] - json.loads(value)["at_ms"] == 60_000
