"""What model and broker are asked: scripts by hand, scripts by seed, and four that wait for a timer of the broker.

More of them than the tests run: `python -m tests.simulation.conformance.scripts --seeds 500 --release 3.9`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_39, CURRENT
from tests.kit.membership import HashOrder
from tests.simulation.brokers.group_states import COMPLETING, PREPARING, STABLE
from tests.simulation.conformance.by_seed import BySeed, Protocols, metadata
from tests.simulation.conformance.duel import Duel, MismatchError, Person

Script = Callable[[Duel], None]


DELAY_MS = 1  # the initial rebalance delay of the broker that is started here


RELEASES = {"4.3": (CURRENT, HashOrder.JAVA), "3.9": (BROKER_39, HashOrder.SCALA)}


def ranged(version: int = 0) -> Protocols:
    return (("range", metadata(version)),)


class ByHand:
    """One group through the situations of docs/internals/broker-behaviour.md."""

    def __init__(self, duel: Duel) -> None:
        self.duel = duel
        self.a, self.b, self.s = Person("a"), Person("b"), Person("s", instance_id="static")

    def plan(self, *people: Person) -> Protocols:
        return tuple((person.member_id, f"for {person.name}".encode()) for person in people)

    def run(self) -> None:
        for work in (self.first_rebalances, self.at_rest, self.new_bytes, self.static, self.goodbye):
            self.duel.scenario.append(f"---- {work.__name__}")
            work()

    def first_rebalances(self) -> None:
        duel, a, b = self.duel, self.a, self.b
        duel.join(a, ranged())
        duel.join(a, ranged())
        duel.sync(a, self.plan(a))
        duel.heartbeat(a)
        duel.join(b, ranged())
        duel.join(b, ranged())  # parked: a has not come back
        duel.heartbeat(a)
        duel.sync(a, self.plan(a))  # of the rebalance before
        duel.join(a, ranged())
        duel.sync(b)  # parked: the leader has no plan yet
        duel.sync(b)  # and again, on another connection
        duel.heartbeat(a)
        duel.join(a, ranged())  # unchanged while the plan is awaited: the same generation
        duel.sync(a, self.plan(a, b))

    def at_rest(self) -> None:
        duel, a, b = self.duel, self.a, self.b
        duel.join(b, ranged())  # a follower, unchanged
        duel.sync(b)
        duel.sync(a, self.plan(a))  # a second plan changes nothing
        duel.sync(b)
        duel.sync(b, protocol="sticky")
        duel.heartbeat(a, generation=a.generation - 1)
        duel.sync(b, generation=b.generation - 1)
        unknown_member = Person("x")
        duel.join(unknown_member, (("unheard-of", metadata(0)),))
        duel.join(unknown_member, ranged(), session_ms=5_999)
        duel.join(unknown_member, ranged(), session_ms=1_800_001)
        unknown_member.member_id = "nobody"
        duel.join(unknown_member, ranged())
        duel.heartbeat(unknown_member)
        duel.sync(unknown_member)
        duel.leave(unknown_member)

    def new_bytes(self) -> None:
        duel, a, b = self.duel, self.a, self.b
        duel.join(b, ranged(1))  # a follower with other bytes starts a rebalance
        duel.heartbeat(b)
        duel.heartbeat(a)
        duel.join(a, ranged())
        duel.sync(b)
        duel.sync(a, self.plan(a))  # b is left out: zero bytes
        duel.join(a, ranged())  # the leader starts a rebalance by joining again
        duel.heartbeat(b)
        duel.join(b, ranged(1))
        duel.sync(b)
        duel.join(b, ranged(2))  # changed while the plan is awaited: the rebalance is void
        duel.join(a, ranged())
        duel.sync(a, self.plan(a, b))
        duel.sync(b)

    def static(self) -> None:
        duel, a, b, s = self.duel, self.a, self.b, self.s
        duel.join(s, ranged())
        duel.heartbeat(a)
        duel.join(a, ranged())
        duel.join(b, ranged(2))
        duel.sync(a, self.plan(a, b, s))
        duel.sync(s)
        duel.sync(b)
        former, s.member_id = Person("former", "static", s.member_id, s.generation), ""
        duel.join(s, ranged())  # the same instance in a new process: no rebalance
        duel.sync(s)
        duel.heartbeat(s)
        duel.heartbeat(former)
        duel.sync(former)
        duel.leave(former, instance_id="static")
        duel.heartbeat(a)
        s.member_id = ""
        duel.join(s, ranged(3))  # with other bytes and the same choice: none either
        duel.sync(s)

    def goodbye(self) -> None:
        duel, a, b, s = self.duel, self.a, self.b, self.s
        duel.leave(b, member_id=a.member_id)  # READ on the group is enough to remove a member
        duel.heartbeat(a)
        duel.heartbeat(b)
        duel.join(b, ranged(2))
        duel.join(s, ranged(3))
        leader, other = (b, s) if duel.group.leader == b.member_id else (s, b)
        duel.sync(leader, self.plan(b, s))
        duel.sync(other)
        s.member_id = ""
        duel.join(s, ranged(3))  # a static leader comes back: it leads, and need not assign again
        duel.sync(s)
        duel.leave(s, member_id="", instance_id="static")
        duel.heartbeat(s)
        duel.leave(b)
        duel.heartbeat(b)
        duel.join(b, ranged())


# ---- scripts that wait for a timer of the broker --------------------------------------------------------------------


def late_members(duel: Duel) -> None:
    """After the rebalance timeout dynamic members that have not come back are removed, static ones stay."""
    a, b, s = _rested(duel, rebalance_ms=4_000)
    newcomer = Person("n")
    duel.join(newcomer, ranged(), rebalance_ms=4_000)
    duel.join(newcomer, ranged(), rebalance_ms=4_000)
    duel.until(lambda: not newcomer.parked or duel.group.state == COMPLETING)
    duel.heartbeat(a)
    duel.heartbeat(b)
    duel.heartbeat(s)


def leader_that_never_syncs(duel: Duel) -> None:
    """After the largest rebalance timeout members that have not synced are removed
    (docs/internals/broker-behaviour.md#states)."""
    a, b, s = _rested(duel, rebalance_ms=4_000)
    duel.join(b, ranged(1), rebalance_ms=4_000)
    duel.join(a, ranged(), rebalance_ms=4_000)
    duel.join(s, ranged(), rebalance_ms=4_000)
    follower = next(p for p in (a, b) if p.member_id != duel.group.leader)
    duel.sync(follower)
    duel.until(lambda: duel.group.state == PREPARING)
    for person in (a, b, s):
        duel.heartbeat(person)


def silent_member(duel: Duel) -> None:
    """A session runs out in Stable (docs/internals/broker-behaviour.md#dead-and-hung-leaders)."""
    a, b, _ = _rested(duel, session_ms=6_000)
    duel.until(lambda: duel.group.state != STABLE)
    duel.heartbeat(b)
    duel.heartbeat(a)


def pending_id(duel: Duel) -> None:
    """An id that was given and never used holds a rebalance open for a session."""
    a, b, s = _rested(duel)
    door = Person("door")
    duel.join(door, ranged(), session_ms=6_000)
    duel.join(b, ranged(1))
    duel.join(a, ranged())
    duel.join(s, ranged())
    duel.until(lambda: duel.group.state == COMPLETING)
    duel.heartbeat(a)


def _rested(duel: Duel, *, session_ms: int = 120_000, rebalance_ms: int = 60_000) -> tuple[Person, Person, Person]:
    """A stable group of two and a static one; `session_ms` is that of the first."""
    a, b, s = Person("a"), Person("b"), Person("s", instance_id="s")
    people = (a, b, s)
    for person in people:
        if person is not s:
            duel.join(person, ranged(), session_ms=session_ms if person is a else 120_000, rebalance_ms=rebalance_ms)
        duel.join(person, ranged(), session_ms=session_ms if person is a else 120_000, rebalance_ms=rebalance_ms)
        for other in people[: people.index(person)]:
            duel.join(other, ranged(), session_ms=session_ms if other is a else 120_000, rebalance_ms=rebalance_ms)
    leader = next(p for p in people if p.member_id == duel.group.leader)
    duel.sync(leader, tuple((p.member_id, p.name.encode()) for p in people))
    for person in people:
        if person is not leader:
            duel.sync(person)
    return people


# ---- scripts about many members --------------------------------------------------------------------------------------

MANY, SIZE_MAX = 53, 5


def growing_table(duel: Duel) -> None:
    """Members that leave before the join phase ends make the table grow for good: it lists and chooses by it."""
    a, b, s = _rested(duel)
    door = Person("door")
    duel.join(door, ranged())  # a pending id holds the join phase open
    many = [Person(f"n{number}-") for number in range(MANY)]
    for person in many:
        duel.join(person, ranged())
        duel.join(person, ranged())
    assert duel.group.table.shape.buckets == 128
    for person in many:
        duel.leave(door, member_id=person.member_id)
    for person in (a, b, s):
        duel.join(person, ranged())
    duel.leave(door)
    assert duel.group.table.shape.buckets == 128
    for _ in range(2):
        leader = next(p for p in (a, b, s) if p.member_id == duel.group.leader)
        duel.leave(door, member_id=leader.member_id)
        for person in (a, b, s):
            if person.member_id in duel.group.member_entries:
                duel.join(person, ranged(1))


def full_group(duel: Duel) -> None:
    """On a broker with group.max.size = SIZE_MAX. Members that come late into a join phase are refused, old ones too:
    so temporary members must leave room for all."""
    a, b, s = _rested(duel)
    door = Person("door")
    duel.join(door, ranged())
    many = [Person(f"n{number}-") for number in range(SIZE_MAX)]
    for person in many:
        duel.join(person, ranged())
    for person in many[:-1]:
        duel.join(person, ranged())
    duel.join(a, ranged(1))
    duel.join(many[-1], ranged())
    duel.join(b, ranged(1))
    for person in many:
        duel.leave(door, member_id=person.member_id)
    duel.join(s, ranged(1))
    duel.leave(door)
    duel.heartbeat(a)
    duel.heartbeat(b)


TIMED = (late_members, leader_that_never_syncs, silent_member, pending_id)


# ---- running ---------------------------------------------------------------------------------------------------------


def play(
    bootstrap: str, group_id: str, script: Script, delay_s: float, order: HashOrder, size_max: int | None = None
) -> Duel:
    """Raises MismatchError if the two differ, and differ again in a second group: between two connections a busy broker
    may swap two requests."""
    for attempt in (1, 2):
        duel = Duel(bootstrap, f"{group_id}-{attempt}", delay_s, order, size_max)
        try:
            script(duel)
        except MismatchError:
            if attempt == 2:
                raise
        else:
            return duel
        finally:
            duel.close()
    raise AssertionError


def drawn(seed: int, done: Counter[str]) -> Script:
    """The script of a seed; its steps are counted in `done`."""

    def run(duel: Duel) -> None:
        script = BySeed(duel, seed)
        script.run()
        done.update(script.done)

    return run


def by_hand(duel: Duel) -> None:
    ByHand(duel).run()


def main() -> int:
    parser = argparse.ArgumentParser(description="The model of the group against a real broker.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--release", choices=list(RELEASES), default="4.3")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin no script after so long")
    parser.add_argument("--bootstrap", help="a broker that runs already, of this release and without an initial delay")
    options = parser.parse_args()
    release, order = RELEASES[options.release]
    if options.bootstrap:
        return _all(options.bootstrap, options, order)
    with KafkaCluster(nodes=1, racks=(), initial_rebalance_delay_ms=DELAY_MS, release=release) as kafka:
        return _all(kafka.bootstrap, options, order)


def _all(bootstrap: str, options: argparse.Namespace, order: HashOrder) -> int:
    done = Counter[str]()
    scripts: list[tuple[str, Script]] = [("by hand", by_hand), ("growing table", growing_table)]
    scripts += [(work.__name__, work) for work in TIMED] if not options.first else []
    scripts += [(f"seed {seed}", drawn(seed, done)) for seed in range(options.first, options.first + options.seeds)]
    failed = answers = played = 0
    began = time.monotonic()
    for name, script in scripts:
        if time.monotonic() - began > options.limit_s:
            break
        played += 1
        try:
            answers += play(bootstrap, f"duel-{time.time_ns()}", script, DELAY_MS / 1000, order).answers
        except MismatchError as mismatch:
            failed += 1
            print(f"==== {name}\n{mismatch}", flush=True)
    print(f"broker {options.release}: {played} scripts, {answers} answers compared, {failed} differ")
    print(f"steps by seed: {dict(done)}; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
