"""Groups of the `consumer` protocol in which members join, leave and die, and what each change costs under an assignor
of the broker."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_44, CURRENT
from tests.interop.support.members import QUIET_S, Flock, Member, TopicPartition, wait_until
from tests.interop.support.scenes.served import JOINED_S, RACKS, crossing, joined, whole

RELEASES = {"4.3": CURRENT, "4.4": BROKER_44}
UNIFORM, RACK_FIRST = "uniform", "bellwether-rack-first"
PRINT_CALLS = (f"-Dbellwether.calls={RACK_FIRST}",)
PARTITIONS, SESSION_MS, DEADLINE_MS = 60, 6_000, 20
LIMIT_S = 240.0  # Bellwether has a broker ask again after a minute, and after two more


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What JMX shows of one call of the assignor in a broker, by the wall clock that members use, too."""

    plans: int
    fallbacks: int
    ms: float
    t_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`settled_s`: from the change to the last member's assignment. `optimum`: the fewest partitions across racks of
    an even assignment. `moved`: partitions that a member which stayed has lost."""

    what: str
    settled_s: float
    crossing: int
    optimum: int
    moved: int
    fallbacks: int


@dataclass(slots=True)
class SettlingGroup:
    """Six members in three racks. Nothing else is coordinated by the node of a group that asks Bellwether, so that
    calls there are its own."""

    cluster: KafkaCluster
    flock: Flock
    kind: str
    assignor: str
    name: str
    node: int
    members: list[Member] = field(default_factory=list)

    @property
    def asks(self) -> bool:
        return self.assignor != UNIFORM

    def calls(self) -> list[Call]:
        """Returns the calls of the assignor in the node that coordinates the group."""
        lines = self.cluster.log_of(self.node).splitlines() if self.asks else []
        return [Call(**json.loads(line)) for line in lines if line.startswith('{"plans"')]

    def begin(self) -> None:
        """The first member of each rack has a process of its own, so that it can be killed."""
        calls = len(self.calls())
        self.members = [self._joined(rack, own_process=first) for first in (True, False) for rack in RACKS]
        self.settle(calls_before=calls)

    def end(self) -> None:
        for member in self.members:
            member.stop()

    def join(self, rack: str) -> Change:
        return self._changed("join", lambda: self.members.append(self._joined(rack)))

    def leave(self) -> Change:
        """The newest member leaves."""
        return self._changed("leave", self._left)

    def kill(self, rack: str) -> Change:
        """A member of this rack is killed. Another one joins after that, and takes its place."""
        place = RACKS.index(rack)
        killed = self._changed("kill", lambda: self.members.pop(place).kill())
        self.members.insert(place, self._joined(rack, own_process=True))
        self.settle()
        return killed

    def settle(self, *, planned: bool = True, calls_before: int = 0) -> None:
        """Waits until the members have every partition once, for a while, after a further call if the broker asks
        Bellwether. If `planned`, they also have as many as each other, by Bellwether's plan. Raises AssertionError."""

        def complete() -> bool:
            quiet = all(member.quiet_s > JOINED_S + QUIET_S for member in self.members)
            if not quiet or not whole(self.members, PARTITIONS):
                return False
            shares, calls = [len(member.owned()) for member in self.members], self.calls()[calls_before:]
            if self.asks and not calls:
                return False
            return not planned or (max(shares) - min(shares) <= 1 and (not self.asks or calls[-1].plans > 0))

        wait_until(complete, LIMIT_S, lambda: f"{self.name}: {self.owners()} {self.calls()[-5:]}")

    def owners(self) -> dict[TopicPartition, str]:
        """Returns the name of the member that has each partition."""
        return {partition: member.name for member in self.members for partition in sorted(member.owned())}

    def _changed(self, what: str, change: Callable[[], None], *, planned: bool = True) -> Change:
        before, calls, began_ms = self.owners(), len(self.calls()), int(time.time() * 1000)
        change()
        self.settle(planned=planned, calls_before=calls)
        now, present = self.owners(), {member.name for member in self.members}
        events = [event for member in self.members for event in list(member.events)]
        times = [event.t_ms for event in events if event.kind in ("assigned", "revoked") and event.partitions]
        return Change(
            what=what,
            settled_s=max(0, max(times) - began_ms) / 1000,
            crossing=crossing(self.members),
            optimum=optimum(self.members),
            moved=sum(now[partition] != owner for partition, owner in before.items() if owner in present),
            fallbacks=sum(call.fallbacks for call in self.calls()[calls:]),
        )

    def disturb(self, number: int) -> Change:
        """A member joins or leaves, in turn, while no plan comes."""
        if number % 2:
            return self._changed("leave", self._left, planned=False)
        rack = RACKS[number % len(RACKS)]
        return self._changed("join", lambda: self.members.append(self._joined(rack)), planned=False)

    def _left(self) -> None:
        self.members.pop().stop()

    def _joined(self, rack: str, *, own_process: bool = False) -> Member:
        return joined(self.flock, self.name, self.assignor, rack, kind=self.kind, own_process=own_process)


def settling_groups(
    cluster: KafkaCluster, flock: Flock, kinds: Sequence[str], assignors: Sequence[str]
) -> list[SettlingGroup]:
    """Groups of these kinds of members under these assignors, without members yet."""
    groups: list[SettlingGroup] = []
    for kind, assignor in product(kinds, assignors):
        taken = {group.node for group in groups if group.asks}
        names = (f"{kind}-{assignor}-{number}" for number in range(100))
        nodes = ((name, cluster.coordinator_node(name)) for name in names)
        name, node = next((n, node) for n, node in nodes if assignor == UNIFORM or node not in taken)
        groups.append(SettlingGroup(cluster, flock, kind, assignor, name, node))
    return groups


def optimum(members: Sequence[Member]) -> int:
    """Returns the fewest partitions across racks where all members have as many as each other. Each rack has a third of
    the partitions."""
    sizes = [sum(member.fields["rack"] == rack for member in members) for rack in RACKS]
    each, more = divmod(PARTITIONS, len(members))
    shares = (
        [size * each + extra for size, extra in zip(sizes, extras, strict=True)]
        for extras in product(*(range(size + 1) for size in sizes))
        if sum(extras) == more
    )
    return min(sum(max(0, PARTITIONS // len(RACKS) - share) for share in rack_shares) for rack_shares in shares)
