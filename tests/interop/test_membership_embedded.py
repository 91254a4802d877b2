"""The whole path on embedded brokers: join an empty group, lead real consumers through a join and a leave, stop.

librdkafka's mock is no real broker (see `tests/kit/brokers.py`); what it cannot show is in
test_membership_broker.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
import pytest

from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.membership import Heartbeat, MembershipConfig, NoteKind, Request, State
from bellwether_kafka.coordinator.runtime import Outside, ServiceOutcome
from tests.interop.support.instance import InstanceHarness
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport

pytestmark = pytest.mark.embedded

PARTITIONS = 12
BLOCKED_S = 2.0


class Consumer:
    """A real consumer, polled in a thread, that reports what it owns."""

    def __init__(self, bootstrap: str, group: str, strategy: str) -> None:
        self.owned: set[tuple[str, int]] = set()
        self._cooperative = strategy == "cooperative-sticky"
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "session.timeout.ms": 2500,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._consumer.subscribe(["orders"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._thread.start()

    def _assigned(self, consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        got = {(p.topic, p.partition) for p in partitions}
        self.owned = self.owned | got if self._cooperative else got

    def _revoked(self, consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.owned = self.owned - {(p.topic, p.partition) for p in partitions}

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)


def membership(group: str, strategy: str) -> MembershipConfig:
    return MembershipConfig(
        subscribes=True,
        group_id=group,
        instance_id=f"bellwether-{group}",
        protocols=(strategy,),  # the mock takes the leader's first
        session_timeout_ms=2_500,
        heartbeat_interval_ms=400,
        decision_deadline_ms=1_000,
        sync_margin_ms=500,
        rebalance_timeout_ms=6_000,
        roll_ms_max=500,
        hold_ms_max=500,
        coalesce_ms=500,
        coalesce_ms_max=1_000,
    )


def each_once(consumers: list[Consumer]) -> bool:
    owned = [tp for consumer in consumers for tp in consumer.owned]
    return len(owned) == PARTITIONS and len(set(owned)) == PARTITIONS and all(c.owned for c in consumers)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_leads_real_consumers_through_join_and_leave(strategy: str) -> None:
    group = f"group-{strategy}"
    with EmbeddedCluster(initial_rebalance_delay_ms=100) as cluster:
        cluster.create_topic("orders", PARTITIONS, 3)
        properties = {"bootstrap.servers": cluster.bootstrap, "log_level": "0"}
        with InstanceHarness(
            properties, membership(group, strategy), outside=Outside(transport=EmbeddedTransport)
        ) as led:
            led.wait_for(State.STABLE)
            first = Consumer(cluster.bootstrap, group, strategy)
            consumers = [first]
            try:
                led.wait_until(lambda: each_once(consumers), "one consumer owns everything")
                consumers.append(Consumer(cluster.bootstrap, group, strategy))
                led.wait_until(lambda: each_once(consumers), "two consumers share")
                assert {len(c.owned) for c in consumers} == {PARTITIONS // 2}
                consumers.pop(0).close()
                led.wait_until(lambda: each_once(consumers), "the one that stays owns everything")
            finally:
                for consumer in consumers:
                    consumer.close()
            assert led.stop() == ServiceOutcome(0)
    assert len(led.decisions) >= 3
    assert all(d.decision.plan.group.protocol == strategy for d in led.decisions)
    assert led.message(NoteKind.REFUSED, NoteKind.ALERT) == []


def test_a_signal_has_a_process_without_a_control_topic_leave_and_stay_out() -> None:
    group = "group-left"
    with EmbeddedCluster(initial_rebalance_delay_ms=100) as cluster:
        cluster.create_topic("orders", PARTITIONS, 3)
        properties = {"bootstrap.servers": cluster.bootstrap, "log_level": "0"}
        alone = {"outside": Outside(transport=EmbeddedTransport), "control": ControlSettings("", "pod-1")}
        with InstanceHarness(properties, membership(group, "range"), **alone) as led:
            led.wait_for(State.STABLE)
            led.leave_all()
            led.wait_for(State.WATCHING)
            assert led.message(NoteKind.LEFT) == [f"a signal has ordered leave of '{group}'"]
            time.sleep(BLOCKED_S)
            led.wait_for(State.WATCHING)
            assert led.stop() == ServiceOutcome(0)


class NotedTransport(EmbeddedTransport):
    """`heartbeats` are the times of those that a broker has answered."""

    made: list["NotedTransport"]

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        self.heartbeats: list[float] = []
        self.made.append(self)

    async def request(self, command: Request) -> Any:
        answer = await super().request(command)
        if isinstance(command, Heartbeat):
            self.heartbeats.append(time.monotonic())
        return answer

    async def start(self, timeout_ms: int = 10_000) -> None:
        self.loop = asyncio.get_running_loop()
        await super().start(timeout_ms)

    def block(self, ended: threading.Event) -> None:
        """Keeps the loop busy, as reading a large answer does."""
        self.loop.call_soon_threadsafe(ended.wait, 30)


def test_heartbeats_go_on_while_the_loop_of_everything_else_is_busy() -> None:
    group, NotedTransport.made = "group-busy", []
    with EmbeddedCluster(initial_rebalance_delay_ms=100) as cluster:
        cluster.create_topic("orders", PARTITIONS, 3)
        properties = {"bootstrap.servers": cluster.bootstrap, "log_level": "0"}
        with InstanceHarness(properties, membership(group, "range"), outside=Outside(transport=NotedTransport)) as led:
            led.wait_for(State.STABLE)
            led.wait_until(lambda: any(transport.heartbeats for transport in NotedTransport.made), "a heartbeat")
            (heartbeats,) = [transport for transport in NotedTransport.made if transport.heartbeats]
            (others,) = [transport for transport in NotedTransport.made if transport is not heartbeats]
            generation, ended = led.generation, threading.Event()
            others.block(ended)
            try:
                blocked_at = time.monotonic()
                led.wait_until(lambda: heartbeats.heartbeats[-1] > blocked_at + BLOCKED_S, "heartbeats go on")
            finally:
                ended.set()
            assert led.generation == generation
            assert led.stop() == ServiceOutcome(0)
