"""The event publisher never delays whoever calls it, and counts what it loses."""

import time

from coordinator.publish import DROPPED, FAILED, EventPublisher, PublishConfig

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


def test_a_full_queue_drops_and_counts_at_once() -> None:
    told: list[tuple[str, str, int]] = []
    publisher = EventPublisher(
        NOBODY_LISTENS, PublishConfig("events", queue_max=3), counted=lambda *what: told.append(what)
    )
    began = time.monotonic()
    for _ in range(5_000):
        publisher.offer("membership", RECORD)
    assert time.monotonic() - began < 5
    assert publisher.counts == {("membership", DROPPED): 4_997}
    assert told[0] == ("membership", DROPPED, 1)


def test_an_absent_broker_and_a_bad_record_are_no_reason_to_stop() -> None:
    publisher = EventPublisher(NOBODY_LISTENS, PublishConfig("events", create_topic=False))
    publisher.start()
    publisher.offer("membership", {"group": "g"})
    publisher.offer("membership", RECORD)
    deadline = time.monotonic() + 20
    while publisher.counts["membership", "sent"] < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert publisher.counts["membership", FAILED] == 1
    assert publisher.counts["membership", "sent"] == 1
    began = time.monotonic()
    publisher.close(3.0)
    assert time.monotonic() - began < 10


def test_a_registry_that_does_not_answer_costs_events_and_nothing_else() -> None:
    config = PublishConfig("events", create_topic=False, registry_url="http://127.0.0.1:1")
    publisher = EventPublisher(NOBODY_LISTENS, config)
    publisher.start()
    for _ in range(3):
        publisher.offer("membership", RECORD)
    deadline = time.monotonic() + 20
    while publisher.counts["membership", DROPPED] < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    publisher.close()
    assert publisher.counts == {("membership", DROPPED): 3}
