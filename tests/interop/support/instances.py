"""Several Bellwether processes under one instance id, and what the broker says about whose turn it was."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from bellwether_kafka.coordinator.control import Order, OrderKind, encode
from tests.interop.support.bellwether import INSTANCE, WATCHED, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.raw import (
    DESCRIBE,
    GroupState,
    connect_to_coordinator,
    read_description,
    request_description,
)
from tests.interop.support.rebalances import Rebalance, rebalances

READY_S = 60.0
# A standby knows of a leader, and the leader of it, once both have beaten in each other's hearing.
ACQUAINTED_S = 2.5
POLL_S = 0.002


class LeaderPlace:
    """Asks the coordinator node all the time which member id sits under Bellwether's instance id; a context manager."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.changes: list[tuple[float, str]] = []  # (monotonic, member id), "" for nobody
        self.state = ""
        self._group = group
        self._connection = connect_to_coordinator(bootstrap, group)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: bool(self.changes), 10, lambda: "the broker does not describe the group")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(10)
        self._connection.close()

    @property
    def holder(self) -> str:
        return self.changes[-1][1]

    def next_holder(self, after: str, limit_s: float) -> float:
        """When, on the monotonic clock, another member than `after` has the instance id."""
        wait_until(lambda: self.holder not in ("", after), limit_s, lambda: f"{after} still has the instance id")
        return next(at for at, holder in reversed(self.changes) if holder == self.holder)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            described = self._described()
            self.state = described.state
            holder = next((m.member_id for m in described.members if m.instance_id == INSTANCE), "")
            if not self.changes or holder != self.holder:
                self.changes.append((time.monotonic(), holder))
            time.sleep(POLL_S)

    def _described(self) -> GroupState:
        return read_description(self._connection.ask(DESCRIBE, request_description(self._group)))


class InstanceSet:
    """`count` processes that stand by for one another in these groups; a context manager. The first one begins."""

    def __init__(
        self,
        cluster: KafkaCluster,
        groups: Sequence[str],
        topic: str,
        *,
        count: int = 2,
        command: Sequence[str] = WATCHED,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._cluster = cluster
        self.topic = topic
        self.groups = tuple(groups)
        self._producer: Producer | None = None
        self.processes = [
            Bellwether(
                cluster,
                groups,
                options={"leave_on_stop": False, **(options or {})},
                standby=True,
                control_topic=topic,
                instance_name=f"instance-{number}",
                command=WATCHED if number else command,
            )
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        try:
            self.processes[0].start()
            for process in self.processes[1:]:
                self.start(process)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        time.sleep(ACQUAINTED_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self.processes):
            process.__exit__(None, None, None)

    def start(self, process: Bellwether) -> None:
        """Starts it again and waits until it has read the topic."""
        count = len(process.log("control_topic_read"))
        process.start(wait=False)
        wait_until(lambda: len(process.log("control_topic_read")) > count, READY_S, process.tail)

    def leader(self, group: str) -> Bellwether:
        """The process that has said last that it leads the group."""
        message = [(self._last(p, group), p) for p in self.processes if p.running and self._last(p, group)]
        assert message, "nobody leads"
        return max(message, key=lambda pair: pair[0])[1]

    def drain(self, target: str = "*") -> float:
        """Orders a hand-over; when, on the monotonic clock, it was sent."""
        now_ms = int(time.time() * 1000)
        key, value = encode(Order(OrderKind.DRAIN, target, "test", now_ms, now_ms + 60_000))
        if self._producer is None:
            config = {**self._cluster.client_config("admin", "admin"), "linger.ms": 0}
            self._producer = Producer(config)
            self._producer.list_topics(self.topic, timeout=10)
            self._producer.poll(0.5)  # it opens the connection to the leader of the partition
        began = time.monotonic()
        self._producer.produce(self.topic, key=key, value=value, partition=0)
        assert self._producer.flush(10) == 0, "the order could not be written"
        return began

    def tails(self) -> str:
        return "\n".join(f"--- instance {i}\n{process.tail(25)}" for i, process in enumerate(self.processes))

    @staticmethod
    def _last(process: Bellwether, group: str) -> str:
        led = process.log("membership", group=group, what="LEADING")
        return str(led[-1]["timestamp"]) if led else ""


def strangers(cluster: KafkaCluster, group: str, after: int) -> list[Rebalance]:
    """Rebalances above generation `after` that no instance of Bellwether led."""
    return [r for r in rebalances(cluster, group, after) if not r.leader.startswith(f"{INSTANCE}-")]


def timed(action: Callable[[], None]) -> float:
    """Runs it; the monotonic time just before."""
    began = time.monotonic()
    action()
    return began
