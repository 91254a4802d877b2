"""What brokers add to a topology that is learned: an error for one of its topics is not the absence of that topic."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.assignors.streams.application import TopologyError
from bellwether_kafka.coordinator.topology import topic_counts
from bellwether_kafka.coordinator.topology.live import applications_like


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
    """Lists groups, and describes those that it is asked for; a code instead of an assignor is an error."""

    def __init__(self, *silent: int, **assignors: str | int) -> None:
        self.silent = silent  # the errors of brokers that do not list theirs
        self.assignors = {name.replace("_", "-"): assignor for name, assignor in assignors.items()}
        self.asked: list[str] = []

    def list_consumer_groups(self, request_timeout: float) -> Any:
        listed: Future[Any] = Future()
        valid = [SimpleNamespace(group_id=name) for name in self.assignors]
        listed.set_result(SimpleNamespace(valid=valid, errors=[KafkaError(c) for c in self.silent]))
        return listed

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> Any:
        self.asked = names
        answers: dict[str, Future[Any]] = {name: Future() for name in names}
        for name, answer in answers.items():
            assignor = self.assignors[name]
            if isinstance(assignor, int):
                answer.set_exception(KafkaException(KafkaError(assignor)))
            else:
                answer.set_result(SimpleNamespace(partition_assignor=assignor))
        return answers


def like(admin: object) -> frozenset[str]:
    return applications_like(admin, "my-app", 1.0)  # type: ignore[arg-type]  # what is asked of it


def test_applications_whose_ids_begin_with_this_one_are_known_by_their_groups() -> None:
    """A group of plain consumers has no changelogs, whatever its name; nor does an Empty one show what it was."""
    admin = Groups(
        my_app="stream", my_app_v2="stream", my_app_counts="range", my_app_old="", my_apple="stream", x="stream"
    )
    assert like(admin) == {"my-app-v2"}
    assert admin.asked == ["my-app-v2", "my-app-counts", "my-app-old"]


def test_a_group_that_may_not_be_described_is_none_that_is_known() -> None:
    assert like(Groups(my_app_v2="stream", my_app_v3=KafkaError.GROUP_AUTHORIZATION_FAILED)) == {"my-app-v2"}


class Silent:
    def list_consumer_groups(self, request_timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


class Late:
    def list_consumer_groups(self, request_timeout: float) -> Any:
        waits: Future[Any] = Future()
        waits.set_exception(TimeoutError())
        return waits


@pytest.mark.parametrize(
    "admin",
    [
        Silent(),
        Late(),
        Groups(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, my_app="stream"),
        Groups(my_app_v2=KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_brokers_do_not_say_is_not_that_there_is_no_other_application(admin: object) -> None:
    """The changelogs of my-app-v2 would pass for those of my-app."""
    with pytest.raises(TopologyError, match="groups named my-app-"):
        like(admin)
