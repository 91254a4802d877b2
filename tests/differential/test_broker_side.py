"""Bellwether's reading of the broker's own assignors beside Kafka's classes of 4.3 and of 4.4, on the same random
groups in one JVM: every member is given exactly the same."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from bellwether_kafka.assignors.broker_side import (
    OF_PARTITIONS,
    RANGE,
    UNIFORM,
    BrokerTask,
    Copies,
    StreamsMember,
    Subscriber,
    assign_sticky,
)
from tests.conftest import missing_tool
from tests.differential.referees import TIMEOUT_S, ask
from tests.interop.support.jvm import BROKER_44, CURRENT, Java, MissingToolError, java

RELEASES = {"4.3": CURRENT, "4.4": BROKER_44}
RACKS = ("az1", "az2", "az3")

INPUTS = int(os.environ.get("BELLWETHER_INPUTS", "1000"))
WIRE_NAMES = {UNIFORM: "uniform", RANGE: "range"}

pytestmark = [pytest.mark.broker, pytest.mark.timeout(TIMEOUT_S)]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def jvm(request: pytest.FixtureRequest, release: str) -> Java:
    try:
        return java(RELEASES[release])
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: nothing to compare with")
        raise


@dataclass(frozen=True, slots=True)
class Consumers:
    assignor: str
    members: tuple[Subscriber, ...]
    partitions: tuple[int, ...]

    def wire(self) -> dict[str, Any]:
        members = [[m.member_id, m.instance_id, sorted(m.topics), m.owned] for m in self.members]
        return {"assignor": WIRE_NAMES[self.assignor], "partitions": self.partitions, "members": members}

    def own(self) -> dict[str, list[tuple[int, int]]]:
        given: dict[str, list[tuple[int, int]]] = {m.member_id: [] for m in self.members}
        for topic, owners in enumerate(OF_PARTITIONS[self.assignor](self.members, self.partitions)):
            for partition, owner in enumerate(owners):
                if owner >= 0:
                    given[self.members[owner].member_id].append((topic, partition))
        return given


def random_consumers(random: Random, assignor: str, *, alike: bool) -> Consumers:
    partitions = tuple(random.randint(0, random.choice((3, 20))) for _ in range(random.randint(1, 6)))
    topics = range(len(partitions))
    common = frozenset(random.sample(topics, random.randint(1, len(topics))))
    total = random.randint(1, random.choice((4, 12)))
    wanted = [
        common if alike else frozenset(random.sample(topics, random.randint(1, len(topics)))) for _ in range(total)
    ]
    owned: list[dict[int, list[int]]] = [{} for _ in range(total)]
    stickiness, favourite = random.random(), random.randrange(total)
    for topic, count in enumerate(partitions):
        for partition in range(count):
            if random.random() < stickiness:  # also of topics that the member no longer wants
                owner = favourite if random.random() < 0.3 else random.randrange(total)
                owned[owner].setdefault(topic, []).append(partition)
    members = []
    for m in range(total):
        instance = f"i{random.getrandbits(16)}-{m}" if random.random() < 0.3 else None
        members.append(Subscriber(f"{random.getrandbits(24):06x}-{m}", instance, wanted[m], owned[m]))
    return Consumers(assignor, tuple(members), partitions)


def compared(jvm: Java, problems: Sequence[Consumers]) -> None:
    for problem, answer in zip(problems, ask(jvm, "bellwether.BrokerSideReferee", problems), strict=True):
        theirs = {member: sorted((t, p) for t, p in given) for member, given in answer.items()}
        assert problem.own() == theirs, problem


@pytest.mark.parametrize("alike", [True, False], ids=["one list", "other lists"])
@pytest.mark.parametrize("assignor", [UNIFORM, RANGE])
def test_the_same_partitions_for_every_member(jvm: Java, assignor: str, alike: bool) -> None:
    random = Random(f"{assignor} {alike}")
    compared(jvm, [random_consumers(random, assignor, alike=alike) for _ in range(INPUTS)])


@dataclass(frozen=True, slots=True)
class Application:
    members: tuple[StreamsMember, ...]
    subtopologies: tuple[tuple[str, int, bool], ...]
    standbys: int

    def wire(self) -> dict[str, Any]:
        topology = {"subtopologies": self.subtopologies, "standbys": self.standbys}
        return {"assignor": "sticky", "members": [_member_on_wire(m) for m in self.members], **topology}

    def tasks(self, *, stateful: bool) -> list[BrokerTask]:
        return [(name, p) for name, count, kept in self.subtopologies if kept is stateful for p in range(count)]

    def plan(self, release: str) -> Copies:
        tasks = self.tasks(stateful=False), self.tasks(stateful=True)
        return assign_sticky(self.members, *tasks, self.standbys, offsets_count=release == "4.4")

    def own(self, release: str) -> dict[str, list[list[BrokerTask]]]:
        plan = self.plan(release)
        rows = zip(self.members, plan.active, plan.standby, strict=True)
        return {member.member_id: [sorted(active), sorted(standby)] for member, active, standby in rows}


def _member_on_wire(member: StreamsMember) -> list[Any]:
    offsets = [(*task, offset) for task, offset in member.offsets.items()]
    rack = RACKS[len(member.member_id + member.process_id) % len(RACKS)]
    return [member.member_id, member.process_id, sorted(member.active), sorted(member.standby), offsets, rack]


def random_application(random: Random) -> Application:
    names = [str(i) for i in range(random.randint(1, random.choice((3, 12))))]
    subtopologies = tuple((name, random.randint(1, 9), random.random() < 0.6) for name in names)
    processes = [f"{random.getrandbits(64):016x}" for _ in range(random.randint(1, random.choice((3, 20))))]
    tasks = [(name, p) for name, count, _ in subtopologies for p in range(count)]
    stateful = [(name, p) for name, count, kept in subtopologies if kept for p in range(count)]
    threads = [(process, n) for process in processes for n in range(random.randint(1, 3))]
    random.shuffle(threads)
    ran: list[set[BrokerTask]] = [set() for _ in threads]
    kept: list[set[BrokerTask]] = [set() for _ in threads]
    offsets: list[dict[BrokerTask, int]] = [{} for _ in threads]
    stickiness, copies = random.random(), random.randint(0, 3)
    for task in tasks:
        if random.random() < stickiness:
            ran[random.randrange(len(threads))].add(task)
    for task in stateful:
        for holder in random.sample(range(len(threads)), min(copies, len(threads))):
            if random.random() < stickiness and task not in ran[holder]:
                kept[holder].add(task)
        for holder in random.sample(range(len(threads)), min(random.randint(0, 4), len(threads))):
            offsets[holder][task] = random.choice((0, 7, random.randint(0, 10**12)))
    members = tuple(
        StreamsMember(f"{random.getrandbits(64):016x}-{n}", process, *map(frozenset, (ran[at], kept[at])), offsets[at])
        for at, (process, n) in enumerate(threads)
    )
    return Application(members, subtopologies, random.randint(0, 3))


def next_rebalance(random: Random, before: Application, release: str) -> Application:
    """Members have what they were given and report offsets of what they had. Some leave, come back anew with what is on
    their disks, or join."""
    plan, members = before.plan(release), []
    for member, active, standby in zip(before.members, plan.active, plan.standby, strict=True):
        on_disk = {task: random.randint(0, 1000) for task in member.active | member.standby if task not in active}
        outcome = random.random()
        if outcome < 0.7:
            members.append(StreamsMember(member.member_id, member.process_id, active, standby, on_disk))
        elif outcome < 0.85:
            on_disk |= {task: random.randint(0, 1000) for task in active | standby}
            name = f"{random.getrandbits(64):016x}"
            members.append(StreamsMember(name, member.process_id, offsets=on_disk))
    new = range(random.randint(0 if members else 1, 2))
    members += [StreamsMember(f"{random.getrandbits(64):016x}", f"{random.getrandbits(64):016x}") for _ in new]
    return Application(tuple(members), before.subtopologies, before.standbys)


def tasks_compared(jvm: Java, release: str, problems: Sequence[Application]) -> None:
    for problem, answer in zip(problems, ask(jvm, "bellwether.BrokerSideReferee", problems), strict=True):
        theirs = {m: [sorted((s, p) for s, p in tasks) for tasks in given] for m, given in answer.items()}
        assert problem.own(release) == theirs, problem


def test_the_same_tasks_and_copies_for_every_thread(jvm: Java, release: str) -> None:
    random = Random("sticky")
    tasks_compared(jvm, release, [random_application(random) for _ in range(INPUTS)])


def test_the_same_tasks_and_copies_while_members_come_and_go(jvm: Java, release: str) -> None:
    """From a fresh application on, rebalance after rebalance."""
    random, problems = Random("churn"), []
    while len(problems) < INPUTS:
        fresh = random_application(random)
        bare = tuple(StreamsMember(m.member_id, m.process_id) for m in fresh.members)
        application = Application(bare, fresh.subtopologies, fresh.standbys)
        for _ in range(8):
            problems.append(application)
            application = next_rebalance(random, application, release)
    tasks_compared(jvm, release, problems)
