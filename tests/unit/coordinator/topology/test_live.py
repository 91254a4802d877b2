"""What brokers add to a topology that is learned: an error for one of its topics is not the absence of that topic."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.assignors.streams.application.topology import TopologyError
from bellwether_kafka.coordinator.topology.live import applications_like, topic_counts


class Admin:
    def __init__(self, **errors: int) -> None:
        self.errors = errors

    def list_topics(self, timeout: float) -> Any:
        def of(topic: str) -> Any:
            code = self.errors.get(topic.partition("-")[0])
            return SimpleNamespace(partitions={0: None, 1: None}, error=None if code is None else KafkaError(code))

        return SimpleNamespace(topics={topic: of(topic) for topic in ("orders", "shop-totals-changelog")})


def test_an_error_for_a_topic_of_the_application_is_not_its_absence() -> None:
    with pytest.raises(TopologyError, match="shop-totals-changelog"):
        topic_counts(Admin(shop=KafkaError.LEADER_NOT_AVAILABLE), 1.0, "shop-")


def test_errors_of_other_topics_and_absent_ones_do_not_matter() -> None:
    assert topic_counts(Admin(orders=KafkaError.LEADER_NOT_AVAILABLE), 1.0, "shop-") == {"shop-totals-changelog": 2}
    assert topic_counts(Admin(shop=KafkaError.UNKNOWN_TOPIC_OR_PART), 1.0, "shop-") == {"orders": 2}


class Groups:
    """Lists groups, and describes those that it is asked for."""

    def __init__(self, **assignors: str) -> None:
        self.assignors = {name.replace("_", "-"): assignor for name, assignor in assignors.items()}
        self.asked: list[str] = []

    def list_consumer_groups(self, request_timeout: float) -> Any:
        listed: Future[Any] = Future()
        listed.set_result(SimpleNamespace(valid=[SimpleNamespace(group_id=name) for name in self.assignors]))
        return listed

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> Any:
        self.asked = names
        answers: dict[str, Future[Any]] = {name: Future() for name in names}
        for name, answer in answers.items():
            answer.set_result(SimpleNamespace(partition_assignor=self.assignors[name]))
        return answers


def test_applications_whose_ids_begin_with_this_one_are_known_by_their_groups() -> None:
    """A group of plain consumers has no changelogs, whatever its name; nor does an Empty one show what it was."""
    admin = Groups(
        my_app="stream", my_app_v2="stream", my_app_counts="range", my_app_old="", my_apple="stream", x="stream"
    )
    assert applications_like(admin, "my-app", 1.0) == {"my-app-v2"}  # type: ignore[arg-type]  # what is asked of it
    assert admin.asked == ["my-app-v2", "my-app-counts", "my-app-old"]


def test_without_groups_no_application_is_known() -> None:
    class Silent:
        def list_consumer_groups(self, request_timeout: float) -> Any:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    assert applications_like(Silent(), "my-app", 1.0) == frozenset()  # type: ignore[arg-type]  # what is asked of it
