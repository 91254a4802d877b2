"""Scripts by seed: any request, in any state, from members that are right or wrong."""

import random
import struct
from collections import Counter
from collections.abc import Callable

from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.simulation.brokers.group_states import COMPLETING, EMPTY, PREPARING, STABLE
from tests.simulation.conformance.duel import Duel, Person

Protocols = tuple[tuple[str, bytes], ...]


STEPS = 60


def metadata(version: int) -> bytes:
    """A valid subscription; others wedge a broker (docs/internals/broker-behaviour.md#malformed-subscriptions)."""
    return ConsumerProtocolSubscription(1, ("t",), struct.pack(">i", version)).encode()


class BySeed:
    """Steps drawn from a seed by what the group is doing, a part of them with something wrong about them."""

    def __init__(self, duel: Duel, seed: int) -> None:
        self.duel, self.rng = duel, random.Random(seed)
        self.people = [Person(name) for name in "abc"] + [Person("s", instance_id="s")]
        if self.rng.random() < 0.5:
            self.people += [Person("t", instance_id="t"), Person("tt", instance_id="t")]  # two processes, one name
        self.versions = Counter[str]()
        self.done = Counter[str]()

    def run(self, steps: int = STEPS) -> None:
        for _ in range(steps):
            step = self._step()
            self.done[step.__name__.strip("_")] += 1
            step(self.rng.choice(self.people))

    def _step(self) -> Callable[[Person], None]:
        by_state = {
            EMPTY: (8, 1, 1, 1, 1, 1),
            PREPARING: (8, 1, 2, 2, 1, 1),
            COMPLETING: (2, 7, 2, 1, 1, 1),
            STABLE: (4, 3, 3, 1, 1, 1),
        }
        steps = (self._join, self._sync, self._heartbeat, self._leave, self._forget, self._evict)
        return self.rng.choices(steps, by_state[self.duel.group.state])[0]

    def _protocols(self, who: Person) -> Protocols:
        if self.rng.random() < 0.25:
            self.versions[who.name] += 1
        data = metadata(self.versions[who.name])
        lists = (("range",), ("range", "roundrobin"), ("roundrobin", "range"))
        names = self.rng.choices((*lists, ("sticky",)), (10, 3, 3, 1))[0]
        return tuple((name, data) for name in names)

    def _join(self, who: Person) -> None:
        if who.parked and self.rng.random() < 0.7:
            return  # most wait for their answer
        self.duel.join(who, self._protocols(who), session_ms=5_000 if self.rng.random() < 0.03 else 120_000)

    def _sync(self, who: Person) -> None:
        group = self.duel.group
        if self.rng.random() < 0.4:
            who = next((p for p in self.people if p.member_id and p.member_id == group.leader), who)
        plan: Protocols = ()
        if who.member_id == group.leader or self.rng.random() < 0.1:
            left_out = self.rng.random() < 0.1
            plan = tuple((m, f"for {m[:4]} {self.rng.random()}".encode()) for m in sorted(group.member_entries))[
                left_out:
            ]
        wrong = self.rng.random()
        self.duel.sync(
            who,
            plan,
            generation=who.generation - 1 if wrong < 0.1 else None,
            protocol="sticky" if wrong > 0.95 else None,
        )

    def _heartbeat(self, who: Person) -> None:
        self.duel.heartbeat(who, generation=who.generation + self.rng.choice((0, 0, 0, 0, -1, 1)))

    def _leave(self, who: Person) -> None:
        if who.instance_id is not None and self.rng.random() < 0.5:
            self.duel.leave(who, member_id="", instance_id=who.instance_id)
        else:
            self.duel.leave(who, instance_id=who.instance_id)

    def _forget(self, who: Person) -> None:
        """A new process of the same name; what the old one had parked stays parked."""
        who.member_id, who.generation, who.parked = "", -1, False

    def _evict(self, who: Person) -> None:
        ids = [*sorted(self.duel.group.member_entries), *self.duel.group.pending, "nobody"]
        self.duel.leave(who, member_id=self.rng.choice(ids))
