"""What an absence of Bellwether costs the members, by `leave_on_stop` and `adopt`: `python -m tests.measure.absences`.

Four groups of three consumers on real brokers live through the same absences at once, each under settings of its own.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_rival
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rounds import rounds

PARTITIONS, MEMBERS = 6, 3
SESSION_S = 10.0  # ours, by default
LEAD_LIMIT_S = 60.0  # within which the lead is to be back
GONE_S = 2 * SESSION_S
LOST = "revoked", "lost"
RESTART = "restart at once (a container of its own, a Deployment)"
SETTINGS = tuple(
    {"leave_on_stop": leave, "adopt": adopt} for leave in (False, True) for adopt in ("take-over", "when-empty")
)


@dataclass(frozen=True, slots=True)
class Cost:
    """`without_owner_s`: the longest time that a partition had no owner; `disturbed`: members that lost any;
    `led_after_s`: from our start to the lead, None where a member keeps it."""

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
        """Bellwether, which runs already, comes first, and the application after it. No member stands where a
        take-over would have to remove two (docs/guides/adoption.md)."""
        kafka.create_topic(group, PARTITIONS)
        stage = cls(kafka, group, [], bellwether)
        stage.members = consumers(flock, group)
        without_rival(kafka, stage.members, group, partitions_of({group: PARTITIONS}))
        assert stage.leads(), bellwether.tail()
        return stage

    def settle(self) -> None:
        wait_settled(self.members, partitions_of({self.group: PARTITIONS}), limit_s=90)

    def leads(self, after: int = -1) -> bool:
        found = rounds(self.kafka, self.group, after)
        return bool(found) and found[-1].leader.startswith(f"{INSTANCE}-")

    def restart(self, *, after_s: float = 0.0, kill: bool = False) -> Cost:
        return self._absence(after_s, kill=kill)

    def removal(self) -> Cost:
        return self._absence(GONE_S, returns=False)

    def replaced_pod(self) -> Cost:
        """A member and Bellwether beside it end together, and come back together; that member counts as disturbed."""
        member, before, began_ms = self.members[0], self._generation(), int(time.time() * 1000)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda stop: stop(), (member.stop, self.bellwether.stop)))
        member.start()
        led_after_s = self._return()
        self.settle()
        return Cost(*losses(self.members, began_ms), self._generation() - before, led_after_s)

    def scaled_to_zero(self) -> Cost:
        """The application ends, and comes back later. Its own absence is no time without an owner."""
        for member in self.members:
            member.stop()
        time.sleep(GONE_S)
        before, began, began_ms = self._generation(), time.monotonic(), int(time.time() * 1000)
        for member in self.members:
            member.start()
        wait_until(lambda: self.leads(before), LEAD_LIMIT_S, self.bellwether.tail)
        led_after_s = time.monotonic() - began
        self.settle()
        return Cost(*losses(self.members, began_ms), self._generation() - before, led_after_s)

    def _generation(self) -> int:
        return rounds(self.kafka, self.group)[-1].generation

    def _absence(self, after_s: float, *, kill: bool = False, returns: bool = True) -> Cost:
        before, began_ms = self._generation(), int(time.time() * 1000)
        self.bellwether.kill() if kill else self.bellwether.stop()
        time.sleep(after_s)
        led_after_s = self._return() if returns else None
        self.settle()
        return Cost(*losses(self.members, began_ms), self._generation() - before, led_after_s)

    def _return(self) -> float | None:
        began, said = time.monotonic(), len(self._led())
        self.bellwether.start(wait=False)
        try:
            wait_until(lambda: len(self._led()) > said and self.leads(), LEAD_LIMIT_S, self.bellwether.tail)
        except AssertionError:
            return None
        return time.monotonic() - began

    def _led(self) -> list[dict[str, Any]]:
        """What our processes have said of leading: the seat alone may be that of the one before."""
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


def lives(kafka: KafkaCluster, flock: Flock, name: str, options: Mapping[str, object]) -> dict[str, Cost]:
    with Bellwether(kafka, [name], options=options) as bellwether:
        stage = Stage.prepare(kafka, flock, name, bellwether)
        costs = {"scaled to zero and back": stage.scaled_to_zero(), RESTART: stage.restart()}
        if costs[RESTART].led_after_s is not None:
            costs["a pod with both replaced (rolling update beside a sidecar)"] = stage.replaced_pod()
            costs[f"away for {GONE_S:.0f} s (drain, image pull)"] = stage.restart(after_s=GONE_S)
            costs["removed for good"] = stage.removal()
        return costs


def main() -> None:
    with KafkaCluster() as kafka, Flock(kafka.bootstrap) as flock, ThreadPoolExecutor(len(SETTINGS)) as pool:
        found = [pool.submit(lives, kafka, flock, f"absence-{n}", each) for n, each in enumerate(SETTINGS)]
        for settings, future in zip(SETTINGS, found, strict=True):
            print(f"leave_on_stop = {str(settings['leave_on_stop']).lower()}, adopt = {settings['adopt']}")
            for what, cost in future.result().items():
                led = f"{cost.led_after_s:.1f} s" if cost.led_after_s is not None else "no"
                print(
                    f"  {what}: without owner {cost.without_owner_s:.2f} s, members disturbed {cost.disturbed},"
                    f" generations {cost.generations}, led again {led}"
                )


if __name__ == "__main__":
    main()
