"""Rows about who else is there: other sidecars, other leaders, whoever reads events and metrics, members that come and
go all the time, and a Streams application that is another one than its topology file says.
"""

import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.topology.file import write_topology
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import LOOPBACK, KafkaCluster, PortLease
from tests.interop.support.instances import LeaderPlace
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.raw import LEAVE, connect_to_coordinator, describe, text
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.scenes.kill_points import (
    LIMIT_S,
    MARGIN_S,
    OPTIONS,
    PARTITIONS,
    SESSION_S,
    SHORTEST_ASSIGNMENT,
    TOPIC,
    Group,
)
from tests.interop.support.streams_app import Application, StreamsApp
from tests.interop.support.streams_led import application, failures, led, strangers, topology_of
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import Scene, Stage, load, measure, print_result

FENCED = 3
ENDS_S = 3.0  # a heartbeat, and the end of a process
REFRESHES_S = 12.0
COALESCE_S = MembershipConfig("").coalesce_ms / 1000
SCRAPES = 50
STORM_S, STORM_MEMBERS, STORM_SESSION_MS = 60.0, 8, 6_000


def twins(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    if wanted("same-id"):
        fault = "a second sidecar under the same id, until the first has ended"
        yield measure(stage, "twins", "same-id", fault, ENDS_S, _fenced, ends=True)
    if wanted("other-id"):
        fault = "a second sidecar under another id, and a consumer that joins"
        yield measure(stage, "twins", "other-id", fault, stage.at_once_s, _beside_another)
    if wanted("removed"):
        fault = "an operator removes Bellwether's member from the group, and a consumer joins"
        yield measure(stage, "follower", "removed", fault, stage.at_once_s, _removed)
    if wanted("led-already"):
        fault = "Bellwether comes to a group that a member leads, and a consumer joins"
        yield measure(stage, "follower", "led-already", fault, stage.at_once_s, _led_already, reports_leader=False)


def _another(scene: Scene, group: str, **settings: Any) -> Bellwether:
    login = {"bootstrap.servers": scene.proxy.addresses}
    return Bellwether(scene.cluster, [group], options=OPTIONS, login=login, **settings)


def _has_refreshed(process: Bellwether) -> None:
    """It says nothing of groups that others lead; it looks when it starts and every five seconds."""
    process.start(wait=False)
    time.sleep(REFRESHES_S)
    assert process.running, process.tail()


def _fenced(scene: Scene) -> float:
    """From the moment when the seat is the second one's."""
    name = scene.group.name
    generation = scene.group.last().generation
    second = _another(scene, name)
    scene.beside.callback(second.__exit__, None, None, None)
    with LeaderPlace(scene.cluster.bootstrap, name) as member_entry:
        first = member_entry.holder
        second.start(wait=False)
        taken_at = member_entry.next_holder(first, LIMIT_S)
    code = scene.lead.wait_for_end(LIMIT_S)
    took_s = time.monotonic() - taken_at
    assert code == FENCED, f"exit code {code}"
    assert scene.group.last().generation == generation, "a round was made"
    scene.message.append(f"the first ended with exit code {code}, no rebalance took place")
    joined_s = scene.joined()
    assert scene.led_by() == "the sidecar"
    scene.message.append(f"a consumer then had its part after {joined_s:.2f} s")
    return took_s


def _beside_another(scene: Scene) -> float:
    name = scene.group.name
    second = _another(scene, name, instance_id="another")
    scene.beside.callback(second.__exit__, None, None, None)
    _has_refreshed(second)
    took_s = scene.joined()
    inside = {member.instance_id for member in describe(scene.cluster.bootstrap, name).members}
    assert inside == {INSTANCE, None}, inside
    assert scene.led_by() == "the sidecar"
    scene.message.append("the second one watches")
    return took_s


def _removed(scene: Scene) -> float:
    name, bootstrap = scene.group.name, scene.cluster.bootstrap
    (own,) = [m for m in describe(bootstrap, name).members if m.instance_id == INSTANCE]
    connection = connect_to_coordinator(bootstrap, name)
    try:
        connection.ask(LEAVE, text(name) + text(own.member_id))
    finally:
        connection.close()
    took_s = scene.joined()
    _not_inside(scene, name)
    scene.message.append("Bellwether is out of it")
    return took_s


def _led_already(scene: Scene) -> float:
    other = Group(scene.cluster, scene.group.flock, f"{scene.group.name}-theirs")
    other.start()
    second = _another(scene, other.name)
    scene.beside.callback(second.__exit__, None, None, None)
    _has_refreshed(second)
    began = time.monotonic()
    other.members.append(other.member())
    took_s = other.until_owned(began)
    other.settle()
    _not_inside(scene, other.name)
    trouble = other.trouble()
    other.close()
    assert not trouble, trouble
    scene.message.append("led by a member, and Bellwether is not in it")
    return took_s


def observers(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for name, fault, config in (
        ("no-topic", "the events topic does not exist and may not be made", None),
        ("full-topic", "the events topic takes no record (max.message.bytes of 10)", {"max.message.bytes": "10"}),
        ("stuck-topic", "the events topic answers no write (too few replicas)", {"min.insync.replicas": "3"}),
    ):
        if wanted(name):
            topic = f"faults-{name}"
            if config is not None:
                _make(stage.cluster, topic, config)
            events = {"topic": topic, "create_topic": False}
            yield measure(stage, "observers", name, fault, stage.at_once_s, Scene.joined, events=events)
    if wanted("scrapes"):
        lease = PortLease()
        work = partial(_scraped, lease.port)
        address = f"{LOOPBACK}:{lease.port}"
        fault = f"{SCRAPES} scrapes that are not read, and {SCRAPES} that never end their request"
        yield measure(stage, "observers", "scrapes", fault, stage.at_once_s, work, http_address=address)
        lease.release()


def _make(cluster: KafkaCluster, topic: str, config: Mapping[str, str]) -> None:
    new = NewTopic(topic, num_partitions=1, replication_factor=1, config=dict(config))
    cluster.admin.create_topics([new], operation_timeout=20)[topic].result(timeout=30)
    cluster.wait_for_topic(topic, 1)


def _scraped(port: int, scene: Scene) -> float:
    held = []
    try:
        for number in range(2 * SCRAPES):
            one = socket.create_connection((LOOPBACK, port), timeout=10)
            held.append(one)
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + (b"\r\n" if number % 2 else b""))
        return scene.joined()
    finally:
        for one in held:
            one.close()


def storm(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Every second one of eight consumers goes, by SIGKILL and by leaving in turns, and another one comes."""
    if not wanted("storm"):
        return
    cluster, flock = stage.cluster, stage.flock
    alone_s, without = _flapped(cluster, flock, "storm-alone")
    broken: tuple[str, ...] = ()
    took_s, with_bellwether = LIMIT_S, 0
    try:
        with Bellwether(cluster, ["storm"], options=OPTIONS) as lead:
            took_s, with_bellwether = _flapped(cluster, flock, "storm")
            if not lead.running:
                broken = (lead.tail(6),)
    except AssertionError as error:
        broken = (str(error)[:300],)
    mine = [r for r in rebalances(cluster, "storm") if r.leader.startswith(f"{INSTANCE}-")]
    outcome = f"{with_bellwether} rebalances in the storm, {len(mine)} of all led by the sidecar"
    outcome += f"; without Bellwether {without} rebalances, then {alone_s:.2f} s"
    fault = f"{STORM_MEMBERS} consumers, one killed or stopped and one started every second for a minute; from its end"
    promised_s = STORM_SESSION_MS / 1000 + alone_s + MARGIN_S
    yield print_result(Row("storm", fault, took_s, promised_s, outcome, broken, load()))


def _flapped(cluster: KafkaCluster, flock: Flock, name: str) -> tuple[float, int]:
    """How long after the storm everything is owned, and how many rounds it made."""
    chance = random.Random(7)

    def member() -> Member:
        return flock.member("confluent", name, [TOPIC], ["range"], session_ms=STORM_SESSION_MS, own_process=True)

    members = [member() for _ in range(STORM_MEMBERS)]
    wait_settled(members, partitions_of({TOPIC: PARTITIONS}), limit_s=LIMIT_S)
    before = last_rebalance(cluster, name).generation
    began = time.monotonic()
    for turn in range(int(STORM_S)):
        gone = members.pop(chance.randrange(len(members)))
        (gone.kill if turn % 2 else gone.host.close)()
        members.append(member())
        time.sleep(max(0.0, began + turn + 1 - time.monotonic()))
    made = last_rebalance(cluster, name).generation - before
    over = time.monotonic()

    def owned() -> bool:
        held = [tp for one in members for tp in one.owned()]
        return len(held) == PARTITIONS == len(set(held)) and all(one.owned() for one in members)

    wait_until(owned, LIMIT_S, lambda: f"{name}: {[len(one.owned()) for one in members]}")
    took_s = time.monotonic() - over
    for one in members:
        one.host.close()
    return took_s, made


def topology(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """From the start of an application's first instance until all of its tasks run."""
    cluster = stage.cluster
    alone_s = 0.0
    for name, fault, wrong in (
        ("missing", "the topology file lacks a subtopology", _without_one),
        ("renamed", "the topology file names another source topic", _renamed),
    ):
        if not wanted(f"topology-{name}"):
            continue
        alone_s = alone_s or _run_alone(cluster)
        app = application(cluster, f"faults-{name}", session_timeout_ms=6_000)
        # In an empty group we wait for more members, as brokers do unless they are told not to, as here.
        promised_s = SESSION_S + COALESCE_S + alone_s + MARGIN_S
        yield _misled(cluster, app, f"{fault}; until every task runs", wrong, promised_s)


def _run_alone(cluster: KafkaCluster) -> float:
    common = application(cluster, "faults-alone", session_timeout_ms=6_000)
    with StreamsApp(cluster, common) as app:
        began = time.monotonic()
        app.add("one")
        return _running(app, began)


def _running(app: StreamsApp, began: float) -> float:
    app.wait_running("one")
    wait_until(app.complete, LIMIT_S, app.send)
    return time.monotonic() - began


def _misled(
    cluster: KafkaCluster, common: Application, fault: str, wrong: Callable[[Application], str], promised_s: float
) -> Row:
    took_s, outcome, broken = LIMIT_S, "", tuple[str, ...]()
    with tempfile.TemporaryDirectory(prefix="bellwether-topology-") as directory:
        file = Path(directory) / "wrong.yaml"
        file.write_text(wrong(common))
        options: dict[str, Any] = {"topology": str(file), "topology_attested": None}
        try:
            with led(cluster, common, Path(directory), **options) as lead, StreamsApp(cluster, common) as app:
                began = time.monotonic()
                app.add("one")
                took_s = _running(app, began)
                (refused, *_) = lead.logged("membership", what="REFUSED")
                outcome = f"led by a member, refused: {refused['reason']}"[:200]
                app.wait_settled()
                broken = (*failures(app), *(() if strangers(cluster, common.application_id) else ("we have led it",)))
        except AssertionError as error:
            broken = (str(error)[:300],)
    return print_result(Row("topology", fault, took_s, promised_s, outcome, broken, load()))


def _without_one(app: Application) -> str:
    described = topology_of(app)
    return write_topology(replace(described, subtopologies=described.subtopologies[:-1]))


def _renamed(app: Application) -> str:
    return write_topology(topology_of(replace(app, topics=(app.output,))))


def _not_inside(scene: Scene, name: str) -> None:
    members = describe(scene.cluster.bootstrap, name).members
    assert all(member.instance_id is None for member in members), "our member stays"
    assert all(len(member.assignment) >= SHORTEST_ASSIGNMENT for member in members)
