"""The event publisher never delays its caller, and counts what it loses."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.kafka.client import LoginError
from bellwether_kafka.coordinator.kafka.wire import TokenError
from bellwether_kafka.coordinator.settings import EventSettings
from bellwether_kafka.coordinator.telemetry import EventPublisher, publish
from tests.kit.brokers import EmbeddedCluster
from tests.patience import PATIENCE

NOBODY_LISTENS = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
RECORD = {
    "group": "g",
    "generation": 1,
    "changed_at_ms": 0,
    "change": "joined",
    "member": "m",
    "member_id": "m",
    "instance_id": None,
    "rack": None,
}


class Counted(EventPublisher):
    """Keeps count of what became of its events."""

    def __init__(self, properties: Mapping[str, str], *, create_topic: bool = False, **more: Any) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        config = EventSettings(topic="events", create_topic=create_topic, **more)
        super().__init__(properties, config, lambda *what: self.counts.update([what]))


def test_a_full_queue_drops_and_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "QUEUE_MAX", 3)
    publisher = Counted(NOBODY_LISTENS)
    for _ in range(5_000):
        publisher.offer("membership", RECORD)  # one that waited for room would wait for ever: no thread takes any
    assert publisher.counts == {("membership", "dropped"): 4_997}


@pytest.mark.slow
def test_a_token_endpoint_that_is_down_at_the_start_does_not_end_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "RECREATE_S", 0.05)
    asked: list[float] = []

    def token(_: object = None) -> tuple[str, float, str, dict[str, str]]:
        asked.append(time.monotonic())
        if len(asked) < 3:
            raise TokenError("The token endpoint is down.")
        return "token", time.time() + 3_600, "bellwether", {}

    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    publisher = Counted({**NOBODY_LISTENS, **login})
    with capture_logs() as logs:
        publisher.start()
        publisher.offer("membership", RECORD)
        deadline = time.monotonic() + 20 * PATIENCE
        while publisher.counts["membership", "sent"] < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        publisher.close(0.5)
    assert publisher.counts["membership", "sent"] == 1
    assert [entry["reason"] for entry in logs if entry["event"] == "events_lost"] == ["the token endpoint is down"]


@pytest.mark.slow
def test_an_absent_broker_and_a_bad_record_are_no_reason_to_stop() -> None:
    publisher = Counted(NOBODY_LISTENS)
    publisher.start()
    publisher.offer("membership", {"group": "g"})
    publisher.offer("membership", RECORD)
    deadline = time.monotonic() + 20
    while publisher.counts["membership", "sent"] < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert publisher.counts["membership", "failed"] == 1
    assert publisher.counts["membership", "sent"] == 1
    publisher.close(0.5)  # without its limit it would not return before the time limit of this test


@pytest.mark.slow
def test_a_registry_that_does_not_answer_costs_events_and_nothing_else() -> None:
    publisher = Counted(NOBODY_LISTENS, registry_url="http://127.0.0.1:1")
    publisher.start()
    for _ in range(3):
        publisher.offer("membership", RECORD)
    deadline = time.monotonic() + 20
    while publisher.counts["membership", "dropped"] < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    publisher.close()
    assert publisher.counts == {("membership", "dropped"): 3}


INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED = 22, 31


@pytest.mark.embedded
def test_a_producer_that_died_for_want_of_a_right_is_reported_and_replaced() -> None:
    """An idempotent producer asks for an id first. To who may write nowhere a broker answers that with a word about the
    cluster, and librdkafka gives the producer up for good."""
    with EmbeddedCluster(brokers=1) as brokers, capture_logs() as logs:
        brokers.create_topic("events", 1)
        brokers.push_errors(INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED)
        publisher = Counted(brokers.properties)
        publisher.start()
        deadline = time.monotonic() + 60 * PATIENCE
        while not publisher.counts["membership", "delivered"] and time.monotonic() < deadline:
            publisher.offer("membership", RECORD)
            time.sleep(0.1)
        publisher.close()
    assert publisher.counts["membership", "delivered"], logs
    assert [
        entry
        for entry in logs
        if "grant Bellwether's principal the ACL WRITE on Topic 'events'" in entry.get("reason", "")
    ]


@pytest.mark.embedded
def test_a_topic_that_could_not_be_created_at_the_start_is_created_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker had answered at the start, or the topic was deleted: events were lost until the next start."""
    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("events", 1)
        brokers.set_topic_error("events", KafkaError.UNKNOWN_TOPIC_OR_PART)
        attempts: list[str] = []

        def create(_properties: object, topic: str, *_: object) -> str:
            attempts.append(topic)
            if len(attempts) > 1:
                brokers.set_topic_error("events", 0)
            return ""

        monkeypatch.setattr(publish, "create_topic", create)
        monkeypatch.setattr(publish, "CREATE_TOPIC_S", 0.1)
        soon = {"topic.metadata.propagation.max.ms": "100", "topic.metadata.refresh.interval.ms": "200"}
        publisher = Counted({**brokers.properties, **soon}, create_topic=True)
        publisher.start()
        deadline = time.monotonic() + 60 * PATIENCE
        while not publisher.counts["membership", "delivered"] and time.monotonic() < deadline:
            publisher.offer("membership", RECORD)
            time.sleep(0.1)
        publisher.close()
    assert publisher.counts["membership", "delivered"]


@pytest.mark.embedded
def test_a_topic_that_could_not_be_created_for_want_of_a_login_or_a_right_is_created_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not tried again until brokers said that there is no topic, which they do not say without a right."""
    with EmbeddedCluster(brokers=1) as brokers, capture_logs() as logs:
        brokers.create_topic("events", 1)
        refusals = [KafkaError(KafkaError._AUTHENTICATION, "no token")] * 2
        attempts: list[str] = []

        def admin(make: Callable[[dict[str, Any]], object], properties: Mapping[str, Any]) -> object:
            if make is AdminClient:
                attempts.append("")
                if refusals:
                    raise LoginError(refusals.pop())
            return make(dict(properties))

        monkeypatch.setattr(publish, "librdkafka_client", admin)
        monkeypatch.setattr(publish, "CREATE_TOPIC_S", 0.1)
        publisher = Counted(brokers.properties, create_topic=True)
        publisher.start()
        deadline = time.monotonic() + 60 * PATIENCE
        while len(attempts) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        publisher.offer("membership", RECORD)
        while not publisher.counts["membership", "delivered"] and time.monotonic() < deadline:
            time.sleep(0.05)
        created = len(attempts)
        time.sleep(1.0)
        publisher.close()
    reasons = [line["reason"] for line in logs if line["event"] == "topic_not_created"]
    assert reasons[0] == "no token"
    assert len(reasons) == 2, "the embedded broker, which creates no topics, has another one"
    assert created <= len(attempts) <= created + 1, "there is a topic if events are delivered"
