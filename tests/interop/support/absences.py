"""A group of consumers that lives through absences of Bellwether, and what they cost its members."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import rebalances

PARTITIONS, MEMBERS = 6, 3
SESSION_S = 10.0  # Bellwether's, by default
LEAD_LIMIT_S = 60.0  # within which the lead is to be back
LOST = "revoked", "lost"


@dataclass(frozen=True, slots=True)
class Cost:
    """`without_owner_s`: the longest time that a partition had no owner; `disturbed`: members that lost any;
    `led_after_s`: from Bellwether's start to the lead, None where a member keeps it."""

    without_owner_s: float
    disturbed: int
    generations: int
    led_after_s: float | None


@dataclass(slots=True)
class Stage:
    """One group with its consumers and a Bellwether that has led it."""

    kafka: KafkaCluster
    group: str
    members: Sequence[Member]
    bellwether: Bellwether

    @classmethod
    def prepare(cls, kafka: KafkaCluster, flock: Flock, group: str, bellwether: Bellwether) -> "Stage":
        """Bellwether, which runs already, comes first, and the application after it. No member is where a
        take-over would have to remove two (docs/guides/adoption.md)."""
        kafka.create_topic(group, PARTITIONS)
        stage = cls(kafka, group, [], bellwether)
        stage.members = consumers(flock, group)
        without_members_in_the_way(kafka, stage.members, group, partitions_of({group: PARTITIONS}))
        assert stage.leads(), bellwether.tail()
        return stage

    def settle(self) -> None:
        wait_settled(self.members, partitions_of({self.group: PARTITIONS}), limit_s=90)

    def leads(self, after: int = -1) -> bool:
        completed = rebalances(self.kafka, self.group, after)
        return bool(completed) and completed[-1].leader.startswith(f"{INSTANCE}-")

    def restart(self, *, after_s: float = 0.0, kill: bool = False) -> Cost:
        before, began_ms = self._generation(), int(time.time() * 1000)
        self.bellwether.kill() if kill else self.bellwether.stop()
        time.sleep(after_s)
        led_after_s = self._return()
        self.settle()
        return Cost(*losses(self.members, began_ms), self._generation() - before, led_after_s)

    def _generation(self) -> int:
        return rebalances(self.kafka, self.group)[-1].generation

    def _return(self) -> float | None:
        began, message = time.monotonic(), len(self._led())
        self.bellwether.start(wait=False)
        try:
            wait_until(lambda: len(self._led()) > message and self.leads(), LEAD_LIMIT_S, self.bellwether.tail)
        except AssertionError:
            return None
        return time.monotonic() - began

    def _led(self) -> list[dict[str, Any]]:
        """What Bellwether's processes have reported of leading: the membership may be that of the process before."""
        return self.bellwether.log("membership", what="LEADING")


def consumers(flock: Flock, group: str, count: int = MEMBERS) -> list[Member]:
    return [flock.member("confluent", group, [group], ["cooperative-sticky"]) for _ in range(count)]


def losses(members: Sequence[Member], since_ms: int) -> tuple[float, int]:
    """(the longest time in seconds that a partition had no owner, members that lost one)."""
    events = sorted((e for m in members for e in list(m.events) if e.t_ms >= since_ms), key=lambda e: e.t_ms)
    free: dict[tuple[str, int], int] = {}
    longest_ms = 0
    for event in events:
        for partition in event.partitions:
            if event.kind in LOST:
                free[partition] = event.t_ms
            elif event.kind == "assigned" and partition in free:
                longest_ms = max(longest_ms, event.t_ms - free.pop(partition))
    losers = sum(any(e.kind in LOST and e.partitions and e.t_ms >= since_ms for e in list(m.events)) for m in members)
    return longest_ms / 1000, losers
