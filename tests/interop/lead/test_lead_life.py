"""One Bellwether process leads groups of every client at once, through the life of a group: start, join, leave, crash,
a growing topic and a new topic. Who owns what is asked from the members; who led, from the brokers.

All groups live at the same time (their lives are mostly waiting); each test reports one of them.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import GROUPS, GroupKind, create_local_topic, foreign
from tests.interop.support.members import (
    Flock,
    Member,
    TopicPartition,
    partitions_of,
    wait_settled,
    wait_until,
    why_unavailable,
)
from tests.interop.support.ownership import double_ownership
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import rebalances

LIFE_TIMEOUT_S = 480  # a bound on hanging; each step has its own, and forty clients share the machine
# "00 00 | 00 00 00 00 | ff ff ff ff": a version, no topics, null userData.
SHORTEST_ASSIGNMENT = 10
OUTDATED = "SYNC was answered with REBALANCE_IN_PROGRESS"


def missing(group: GroupKind) -> str | None:
    return next((reason for kind in group.kinds if (reason := why_unavailable(kind))), None)


@pytest.fixture(scope="module")
def lives(kafka: KafkaCluster) -> Iterator[dict[str, Future[None]]]:
    able = [group for group in GROUPS if missing(group) is None]
    with (
        Bellwether(kafka, [group.name for group in able]) as lead,
        Flock(kafka.bootstrap) as flock,
        ThreadPoolExecutor(len(able)) as pool,
    ):
        yield {group.name: pool.submit(Life(kafka, flock, lead, group).run) for group in able}


@pytest.mark.smoke
@pytest.mark.timeout(LIFE_TIMEOUT_S + 60)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_group_is_led_from_start_to_new_topic(
    group: GroupKind, lives: dict[str, Future[None]], request: pytest.FixtureRequest
) -> None:
    reason = missing(group)
    if reason is not None:
        missing_tool(request.config, reason)
    lives[group.name].result(timeout=LIFE_TIMEOUT_S)


class Life:
    """The life of one group. Each step ends settled: every partition owned by exactly one member."""

    def __init__(self, cluster: KafkaCluster, flock: Flock, lead: Bellwether, group: GroupKind) -> None:
        self._cluster, self._flock, self._lead, self._group = cluster, flock, lead, group
        self._first, self._second, self._late = (f"{group.name}-{part}" for part in ("first", "second", "late"))
        self._counts = {self._first: 6, self._second: 3}
        self._members: list[Member] = []

    def run(self) -> None:
        for topic, partitions in self._counts.items():
            create_local_topic(self._cluster, topic, partitions)
        self._starts()
        self._grows()
        self._one_leaves()
        self._one_is_killed()
        self._topic_grows()
        if self._group.takes_new_topics:
            self._topic_appears()
        self._was_led_throughout()

    def _starts(self) -> None:
        self._members = [self._add(0), self._add(1), self._add(2, mortal=True)]
        owners = self._settle("start")
        if self._group.rack_aware:
            assert not foreign(owners), "every member owns what lies in its own rack"

    def _grows(self) -> None:
        self._members.append(self._add(3))
        self._settle("join")

    def _one_leaves(self) -> None:
        self._members.pop(0).stop()
        self._settle("leave")

    def _one_is_killed(self) -> None:
        victim = next(member for member in self._members if member.name == self._mortal)
        self._members.remove(victim)
        victim.kill()
        self._settle("kill")

    def _topic_grows(self) -> None:
        self._cluster.add_partitions(self._first, 8)
        self._counts[self._first] = 8
        self._settle("more partitions")

    def _topic_appears(self) -> None:
        create_local_topic(self._cluster, self._late, 3)
        self._counts[self._late] = 3
        self._settle("new topic")

    def _was_led_throughout(self) -> None:
        led = rebalances(self._cluster, self._group.name)
        strangers = [r for r in led if not r.leader.startswith(f"{INSTANCE}-")]
        assert not strangers, f"another led: {strangers}\nbellwether:\n{self._lead.log_of(self._group.name, 60)}"

        def silent() -> list[int]:
            recorded = {entry["generation"] for entry in self._lead.log("decision", group=self._group.name)}
            return [r.generation for r in led if r.members > 1 and r.generation not in recorded | self._outdated()]

        wait_until(lambda: not silent(), 30, lambda: f"generations led without a decision record: {silent()}")
        described = describe(self._cluster.bootstrap, self._group.name)
        short = [m.member_id for m in described.members if len(m.assignment) < SHORTEST_ASSIGNMENT]
        assert not short, f"members without assignment bytes: {short}"
        everybody = [m for m in self._flock.members if m.group == self._group.name]
        assert not double_ownership(everybody)
        if set(self._group.kinds) == {"java"}:
            assert not [error for member in everybody for error in member.errors]

    def _outdated(self) -> set[int]:
        """Generations whose plan the broker received and never handed out: it logs a plan before it has stored it, and
        answers everybody with REBALANCE_IN_PROGRESS where a member joins or leaves meanwhile."""
        entries = self._lead.log("membership", group=self._group.name, what="REJOINING", reason=OUTDATED)
        return {entry["generation"] for entry in entries}

    def _add(self, number: int, *, mortal: bool = False) -> Member:
        topics = (self._first, self._second, *([self._late] if self._group.takes_new_topics else []))
        member = self._group.member(self._flock, self._group.name, topics, number, own_process=mortal)
        if mortal:
            self._mortal = member.name
        return member

    def _settle(self, step: str) -> dict[TopicPartition, Member]:
        try:
            # Range spreads each topic by itself, the others all of them together.
            return wait_settled(self._members, partitions_of(self._counts), spread=len(self._counts))
        except AssertionError as unsettled:
            message = self._lead.log_of(self._group.name)
            raise AssertionError(f"{self._group.name}, {step}: {unsettled}\nbellwether:\n{message}") from None
