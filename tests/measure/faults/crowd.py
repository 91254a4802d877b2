"""Members of any bytes that take part in every round of a group, each in a thread of its own."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.interop.support.members import wait_until
from tests.interop.support.raw import RawError, RawMember
from tests.interop.support.scenes.kill_points import LIMIT_S, PARTITIONS, TOPIC

HEARTBEAT_S = 0.2


class Dealer(RawMember):
    """Deals the partitions of the only topic among its subscribers, where the broker makes it the leader."""

    def plan(self) -> dict[str, bytes]:
        wants = {m: ConsumerProtocolSubscription.decode(data).topics for m, data in sorted(self.members.items())}
        takers = [m for m, topics in wants.items() if topics]
        return {
            m: ConsumerProtocolAssignment(
                version=0,
                partitions=tuple(TopicPartition(TOPIC, p) for p in range(PARTITIONS) if takers[p % len(takers)] == m),
            ).encode()
            for m in wants
        }


class Crowd:
    """`given` are the last assignments, by number of the member; `errors` what the broker answered instead."""

    def __init__(self, bootstrap: str, group: str, subscriptions: Sequence[bytes], protocol: str = "range") -> None:
        self.given: dict[int, bytes] = {}
        self.errors: list[str] = []
        self._over = threading.Event()
        self._size = len(subscriptions)
        self._resting: dict[int, bool] = {}
        self._threads = [
            threading.Thread(target=self._live, args=(number, bootstrap, group, protocol, metadata), daemon=True)
            for number, metadata in enumerate(subscriptions)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def resting(self) -> bool:
        """Every one has an assignment of a generation that stands."""
        return len(self._resting) == self._size and all(self._resting.values())

    def leave(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _live(self, number: int, bootstrap: str, group: str, protocol: str, metadata: bytes) -> None:
        try:
            with Dealer(bootstrap, group, [(protocol, metadata)]) as member:
                while not self._over.is_set():
                    self.given[number] = member.rebalance()
                    self._resting[number] = True
                    while not self._over.is_set() and member.heartbeat():
                        time.sleep(HEARTBEAT_S)
                    self._resting[number] = False
        except (RawError, OSError, TimeoutError) as error:
            self.errors.append(f"a raw member: {error}")


@contextmanager
def crowd(bootstrap: str, group: str, subscriptions: Sequence[bytes]) -> Iterator[Crowd]:
    """Yields once all of them rest in a generation. Raises AssertionError."""
    members = Crowd(bootstrap, group, subscriptions)
    try:
        wait_until(lambda: members.resting or bool(members.errors), LIMIT_S, lambda: "the crowd does not rest")
        assert not members.errors, members.errors
        yield members
        assert not members.errors, members.errors
    finally:
        members.leave()
