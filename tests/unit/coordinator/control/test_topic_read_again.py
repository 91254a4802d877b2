"""A control topic that is read from its start again, and one that can be read but not written."""

import asyncio
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.control import (
    ControlTopic,
    InstanceHeartbeat,
    Order,
    OrderKind,
    Record,
    encode,
    write_now,
)
from bellwether_kafka.coordinator.control import topic as topic_module
from bellwether_kafka.coordinator.kafka.wire import UnreachableError
from bellwether_kafka.coordinator.membership import Failure
from tests.kit.brokers import EmbeddedCluster
from tests.kit.runtime import kafka, until

pytestmark = pytest.mark.embedded

FETCH, PRODUCE = 1, 0  # Kafka's keys of the requests


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("control", 1)
        yield cluster


async def test_what_was_withdrawn_does_not_come_into_force_while_a_log_is_read_again(brokers: EmbeddedCluster) -> None:
    """A broker that lost the end of the log after a power failure refuses the offset, too. Bellwether left each group
    that it had once been ordered to leave, for a moment."""
    now_ms = int(time.time() * 1000)
    leave = Order(OrderKind.LEAVE, "orders", "eve", now_ms, now_ms + 600_000)
    for key, value in (encode(leave), (leave.key.encode(), None), encode(InstanceHeartbeat("pod-1"))):
        write_now(kafka(brokers), "control", (key, value))
    received: list[tuple[str, Record | None]] = []
    caught_up = asyncio.Event()
    control = ControlTopic(kafka(brokers), "control")
    again: list[Mapping[str, Record | None]] = []
    control.start(lambda *entry: received.append(entry), caught_up.set, lambda: None, again.append)
    await caught_up.wait()
    brokers.push_errors(FETCH, KafkaError.OFFSET_OUT_OF_RANGE)
    await until(lambda: bool(again))
    await control.close()
    assert again == [{leave.key: None, "beat/pod-1": InstanceHeartbeat("pod-1")}]
    assert len(received) == 3, "of the first time"


async def test_a_topic_that_may_be_read_but_not_written_is_reported_once(brokers: EmbeddedCluster) -> None:
    """It was reported once a second: the heartbeats of other instances were read between."""
    received: list[str] = []
    control = ControlTopic(kafka(brokers), "control")
    with capture_logs() as logs:
        control.start(lambda key, _: received.append(key), lambda: None)
        await until(lambda: bool(received))
        for number in range(3):
            brokers.push_errors(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
            control.write(InstanceHeartbeat("pod-1"))
            await asyncio.sleep(1.0)
            other = encode(InstanceHeartbeat(f"pod-2-{number}"))
            await asyncio.to_thread(write_now, kafka(brokers), "control", other)
            await until(lambda number=number: f"beat/pod-2-{number}" in received)
        await control.close()
    assert len([line for line in logs if line["event"] == "control_topic"]) == 1


@pytest.mark.parametrize("error", [UnreachableError(Failure.TIMED_OUT, "no answer"), KeyError("a defect")])
async def test_all_attempts_to_read_log_in_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Each attempt made a transport of its own, and with a keytab each of these ran `kinit`: once a second."""
    made: list[str] = []
    started: list[str] = []

    class Unreachable:
        def __init__(self, _: object) -> None:
            made.append("made")

        async def start(self) -> None:
            started.append("started")
            if len(started) == 5:
                control._stopping.set()
            raise error

        async def close(self) -> None:
            made.append("closed")

    monkeypatch.setattr(topic_module, "Transport", Unreachable)
    monkeypatch.setattr(topic_module, "RETRY_S", 0.0)
    control = ControlTopic({"bootstrap.servers": "127.0.0.1:1"}, "control")
    with capture_logs() as logs:
        await control._follow(lambda *_: None, lambda: None, lambda _: None)
    assert (made, len(started)) == (["made", "closed"], 5)
    assert {line["event"] for line in logs} <= {"control_topic", "control_topic_failed"}
    assert logs
