"""What brokers add to a topology that is learned: an error for one of its topics is not the absence of that topic."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bellwether_kafka.assignors.streams.application.topology import TopologyError
from bellwether_kafka.coordinator.topology.live import topic_counts


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
