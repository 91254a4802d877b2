"""Groups with members in several languages that are taken over, and what each member was without."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import MembershipConfig, NoteKind, State
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import (
    Flock,
    Member,
    partitions_of,
    wait_settled,
)
from tests.interop.support.rebalances import last_rebalance

MIXED = ("java", "confluent", "franz-go", "kafka-python")
PARTITIONS = 26  # two for each of thirteen members
BACK_MS_MAX = 1_000  # promised: the removed leader's partitions under a cooperative protocol
COOPERATIVE = "cooperative-sticky"


def start(
    kafka: KafkaCluster,
    flock: Flock,
    group: str,
    kinds: Sequence[str],
    assignor: str,
    topic: str,
    leader_kind: str = "",
    heartbeat_ms: int = 500,
) -> list[Member]:
    """Settled members, none of which is in the slot where no member id sorts first (see `unpassed`).

    The leader is of `leader_kind`; "" for any.
    """
    members = [flock.member(kind, group, [topic], [assignor], heartbeat_ms=str(heartbeat_ms)) for kind in kinds]
    without_members_in_the_way(kafka, members, group, partitions_of({topic: PARTITIONS}), leader_kind)
    return members


@dataclass(frozen=True, slots=True)
class Pause:
    """One time that a member was without work that it had: from the loss to the next gain; milliseconds."""

    member: str
    partitions: int
    pause_ms: int


def pauses(members: Sequence[Member], since_ms: int) -> list[Pause]:
    """Every pause of every member since then, by their own clocks; who is not there noticed nothing."""
    return [pause for member in members for pause in _of(member, since_ms)]


def _of(member: Member, since_ms: int) -> Iterator[Pause]:
    lost_at, lost = 0, 0
    for event in list(member.events):
        if event.t_ms < since_ms or not event.partitions:
            continue
        if event.kind in ("revoked", "lost") and not lost:
            lost_at, lost = event.t_ms, len(event.partitions)
        elif event.kind == "assigned" and lost:
            yield Pause(member.name, lost, event.t_ms - lost_at)
            lost = 0
    if lost:
        yield Pause(member.name, lost, 60_000)


def longest_ms(pauses_seen: Sequence[Pause]) -> int:
    return max((pause.pause_ms for pause in pauses_seen), default=0)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a take-over did. `ordinary_ms`: the longest pause as one member more comes, and as it goes again."""

    led: bool
    rebalances: int
    moved: int
    removed_ms: int
    others_ms: int
    others: int
    ordinary_ms: tuple[int, int]
    message: tuple[str, ...]
    each: tuple[Pause, ...]

    def broken(self, assignor: str, back_ms_max: int = BACK_MS_MAX) -> list[str]:
        """Which promises it broke."""
        failures = [] if self.led else [f"we do not lead: {self.message}"]
        if self.rebalances > 2:
            failures.append(f"{self.rebalances} rebalances")
        if assignor == COOPERATIVE:
            failures += [f"{self.others} others noticed"] * (self.others > 0)
            failures += [f"{self.moved} partitions have moved"] * (self.moved > 0)
            failures += [f"removed for {self.removed_ms} ms"] * (self.removed_ms > back_ms_max)
        return failures


def take_over(kafka: KafkaCluster, members: list[Member], config: MembershipConfig, topic: str) -> Taken:
    """Takes the group, which is at rest, and hands it back at the end."""
    group = config.group_id
    owners = wait_settled(members, partitions_of({topic: PARTITIONS}))
    before = last_rebalance(kafka, group)
    began_ms = int(time.time() * 1000)
    with InstanceHarness(kafka.client_config("bellwether", "bellwether"), config) as led:
        led.wait_for(State.STABLE, 90)
        after = wait_settled(members, partitions_of({topic: PARTITIONS}), limit_s=90)
        pauses_seen = pauses(members, began_ms)
        now = last_rebalance(kafka, group)
        removed = [p for p in pauses_seen if before.leader.startswith(f"{p.member}-")]
        others = [p for p in pauses_seen if p not in removed]
        return Taken(
            led=now.leader == led.service.runners[group].membership.member_id,
            rebalances=now.generation - before.generation,
            moved=sum(after[tp] is not owner for tp, owner in owners.items()),
            removed_ms=longest_ms(removed),
            others_ms=longest_ms(others),
            others=len({p.member for p in others}),
            ordinary_ms=(0, 0),
            message=tuple(led.message(*NoteKind)),
            each=tuple(pauses_seen),
        )
