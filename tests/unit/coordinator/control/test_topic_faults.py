"""Control topics that exist and are not as they should be."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bellwether_kafka.coordinator.control import (
    ControlTopicError,
    NoControlTopicError,
    SilentTopicError,
    forgetful,
    require_topic,
    topic,
    write_now,
)
from tests.kit.brokers import EmbeddedCluster


class Configured:
    """Brokers with one topic. `answer` is its cleanup.policy or an error."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def describe_configs(self, resources: Any, **_: float) -> dict[Any, "Future[Any]"]:
        answered: Future[Any] = Future()
        if isinstance(self.answer, Exception):
            answered.set_exception(self.answer)
        else:
            answered.set_result({"cleanup.policy": SimpleNamespace(value=self.answer)})
        return dict.fromkeys(resources, answered)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_of_which_brokers_delete_orders_in_force_is_named(policy: str) -> None:
    """An administrator had created it with the brokers' defaults: an order without an end was gone after a week."""
    fault = forgetful(cast("AdminClient", Configured(policy)), "control", 1.0)
    assert fault.startswith(f"has cleanup.policy={policy}, so that orders in force are deleted")
    assert fault.endswith("set cleanup.policy=compact on it")


@pytest.mark.parametrize(
    "answer", ["compact", KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), TimeoutError()]
)
def test_a_compacted_topic_or_one_whose_configs_are_hidden_is_not(answer: str | Exception) -> None:
    assert forgetful(cast("AdminClient", Configured(answer)), "control", 1.0) == ""


@pytest.mark.embedded
def test_an_error_of_a_topic_is_not_its_absence() -> None:
    """A topic without a leader for a moment was reported as one that nobody had created."""
    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("control", 1)
        properties = {"bootstrap.servers": brokers.bootstrap}
        require_topic(properties, "control")
        brokers.set_topic_error("control", KafkaError.LEADER_NOT_AVAILABLE)
        with pytest.raises(ControlTopicError, match="'control' cannot be reached") as error:
            require_topic(properties, "control")
        assert not isinstance(error.value, NoControlTopicError)


class Outcomes:
    """In a producer's place: reports these outcomes of deliveries when it is flushed."""

    def __init__(self, *outcomes: KafkaError | None) -> None:
        self.outcomes = outcomes
        self.reports: list[Callable[[KafkaError | None, None], None]] = []

    def produce(self, _topic: str, *, on_delivery: Callable[[KafkaError | None, None], None], **_: object) -> None:
        self.reports.append(on_delivery)

    def flush(self, _: float) -> None:
        for report, outcome in zip(self.reports, self.outcomes, strict=False):
            report(outcome, None)


@pytest.mark.parametrize(
    ("outcomes", "error", "message"),
    [
        ((None, None), None, ""),
        ((), SilentTopicError, "no answer"),
        ((None,), SilentTopicError, "no answer"),
        ((None, KafkaError(KafkaError._MSG_TIMED_OUT)), SilentTopicError, "could not be written"),
        ((KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None), ControlTopicError, "WRITE on Topic"),
        ((None, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), ControlTopicError, "could not be written"),
    ],
)
def test_records_are_written_only_if_each_was_delivered(
    monkeypatch: pytest.MonkeyPatch,
    outcomes: tuple[KafkaError | None, ...],
    error: type[ControlTopicError] | None,
    message: str,
) -> None:
    monkeypatch.setattr(topic, "_producer", lambda *_: Outcomes(*outcomes))
    records = (b"leave/a", b"1"), (b"leave/b", b"2")
    if error is None:
        write_now({"bootstrap.servers": "127.0.0.1:1"}, "control", *records)
        return
    with pytest.raises(error, match=message) as raised:
        write_now({"bootstrap.servers": "127.0.0.1:1"}, "control", *records)
    assert type(raised.value) is error
