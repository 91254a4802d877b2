"""Rows in which the sidecar, or the node that coordinates its group, ends at each step of a round."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from confluent_kafka import ElectionType, TopicPartition

from tests.interop.support.members import wait_until
from tests.interop.support.proxy import Fate, honest
from tests.interop.support.raw import describe
from tests.interop.support.scenes.kill_points import LIMIT_S, NODE_S, Outcome, coordinator_killed, killed
from tests.interop.support.scenes.killed_at import POINTS
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import Scene, Stage, load, measure, print_result
from tests.measure.faults.wire import JOIN, SYNC, once

STEPS = {
    "before-join": "before JoinGroup is sent",
    "join-sent": "JoinGroup sent",
    "join-answered": "JoinGroup answered",
    "deciding": "deciding",
    "before-sync": "before SyncGroup is sent",
    "after-sync": "SyncGroup answered",
    "stable": "group at rest",
    "leaving": "leaving",
}
HOW = {"kill": "kill -9", "term": "SIGTERM", "break": "an internal error"}
KINDS = {"kill": "death", "term": "term", "break": "term"}
OFFSETS = "__consumer_offsets"
PARKED_S = 1.5


def deaths(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Bellwether ends, alone or with a standby."""
    early = [point for point in POINTS if point != "leaving"]
    each = [("kill", False, POINTS), ("kill", True, early), ("term", False, early), ("break", True, early)]
    for how, standby, points in each:
        for point in points:
            if wanted(f"{how}-{'standby' if standby else 'alone'}"):
                fault = f"{HOW[how]}, {STEPS[point]}, {'a standby waits' if standby else 'alone'}"
                trial = partial(killed, stage.cluster, stage.flock, point, stage.ordinary_s, standby=standby, how=how)
                yield _row(KINDS[how], fault, trial)


def nodes(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for how, reported in (("kill", "kill -9 of the coordinator node"), ("stop", "the coordinator node ends in order")):
        if wanted(f"node-{how}"):
            for point in POINTS:
                trial = partial(coordinator_killed, stage.cluster, stage.flock, point, how=how)
                yield _row("node", f"{reported}, {STEPS[point]}", trial)
    for name, fault, meanwhile, strike in (
        ("node-parked", "kill -9 of the coordinator node while members wait in JoinGroup", _when_parked, "kill"),
        (
            "node-parked-stop",
            "the coordinator node ends in order while members wait in JoinGroup",
            _when_parked,
            "stop",
        ),
        (
            "node-syncing",
            "kill -9 of the coordinator node between Bellwether's SyncGroup and its answer",
            _at_sync,
            "kill",
        ),
        ("node-syncing-stop", "it ends in order between Bellwether's SyncGroup and its answer", _at_sync, "stop"),
    ):
        if wanted(name):
            yield measure(stage, "node", name, fault, NODE_S, partial(_struck, meanwhile, strike))
    if wanted("node-elected"):
        reported = "the group moves to another node by preferred leader election, then a consumer joins"
        yield measure(stage, "node", "node-elected", reported, NODE_S, _elected)


def _row(kind: str, fault: str, trial: Callable[[], Outcome]) -> Row:
    try:
        found = trial()
    except AssertionError as late:
        return print_result(Row(kind, fault, LIMIT_S, 0.0, "led by nobody", (str(late)[:300],), load()))
    return print_result(
        Row(kind, fault, found.took_s, found.promised_s, f"led by {found.led_by}", found.broken, load())
    )


def _struck(when: Callable[[Scene, Callable[[], None]], None], strike: str, scene: Scene) -> float:
    """The time from the strike on; the node comes back afterwards."""
    cluster = scene.cluster
    node = cluster.coordinator_node(scene.group.name)
    struck: list[float] = []
    ended = threading.Event()

    def end() -> None:
        struck.append(time.monotonic())
        (cluster.kill_node if strike == "kill" else cluster.stop_node)(node)
        ended.set()

    when(scene, end)
    try:
        scene.group.members.append(scene.group.member())
        wait_until(lambda: bool(struck), LIMIT_S, scene.lead.tail)
        scene.proxy.rule = honest
        took_s = scene.group.until_owned(struck[0])
    finally:
        if ended.wait(LIMIT_S):
            cluster.start_node(node)
    scene.group.settle(quiet_s=1.0)
    return took_s


def _when_parked(scene: Scene, end: Callable[[], None]) -> None:
    """Our JoinGroup is held up, for which the members wait in theirs."""

    def held_up() -> None:
        time.sleep(PARKED_S)
        assert describe(scene.cluster.bootstrap, scene.group.name).state == "PreparingRebalance"
        end()

    scene.proxy.rule = once(JOIN, Fate.CUT, answer=False, meanwhile=held_up)


def _at_sync(scene: Scene, end: Callable[[], None]) -> None:
    """The node ends while its answer waits in the proxy, and the answer is lost with it."""
    scene.proxy.rule = once(SYNC, Fate.CUT, answer=True, meanwhile=end)


def _elected(scene: Scene) -> float:
    """Its node is restarted in order, which moves the group away; an election brings it back while all is well."""
    cluster, name = scene.cluster, scene.group.name
    _elect(scene)
    home = cluster.coordinator_node(name)
    cluster.stop_node(home)
    wait_until(lambda: cluster.coordinator_node(name) != home, LIMIT_S, lambda: "the group has not moved")
    cluster.start_node(home)
    _elect(scene)
    wait_until(lambda: cluster.coordinator_node(name) == home, LIMIT_S, lambda: "the election has moved nothing")
    return scene.joined()


def _elect(scene: Scene) -> None:
    wait_until(lambda: _in_sync(scene), LIMIT_S, lambda: "replicas have not caught up")
    scene.group.settle(quiet_s=1.0)
    admin = scene.cluster.admin
    every = admin.list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(OFFSETS, p) for p in every]).result(timeout=30)


def _in_sync(scene: Scene) -> bool:
    found = scene.cluster.admin.list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions.values()
    return all(len(partition.isrs) == len(partition.replicas) for partition in found)
