"""What existing topics add to a topology; the recorded topologies of tests/vectors have the rest."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigSource

from bellwether_kafka.coordinator.topology import topic_configs, with_existing
from tests.kit.streams import CHANGELOG, REPARTITION, SHOP, SHOP_COUNTS

COMPACT = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def test_a_size_that_follows_from_the_rest_is_not_fixed_and_another_one_is() -> None:
    topology = with_existing(SHOP, SHOP_COUNTS, {CHANGELOG: COMPACT, REPARTITION: {}})
    assert [topic.name for topic in topology.topology.internal_topics] == [CHANGELOG]
    asked = with_existing(SHOP, SHOP_COUNTS | {REPARTITION: 6, CHANGELOG: 6}, {CHANGELOG: COMPACT, REPARTITION: {}})
    sized = asked.topology.internal(REPARTITION)
    assert sized is not None
    assert sized.partitions == 6
    assert REPARTITION in asked.notes[0]


def test_configs_that_may_not_be_read_are_a_note_with_the_right_to_grant() -> None:
    topology = with_existing(SHOP, SHOP_COUNTS, {})
    assert topology.topology.internal_topics == ()
    assert "grant Bellwether's principal the ACL DESCRIBE_CONFIGS on Topic" in topology.notes[0]


class Admin:
    """The topic `hidden` may not be read; of all others one config is their own."""

    def describe_configs(self, resources: Any, **_: float) -> dict[Any, "Future[Any]"]:
        return {resource: self._answer(resource.name) for resource in resources}

    def _answer(self, topic: str) -> "Future[Any]":
        answer: Future[Any] = Future()
        if topic == "hidden":
            answer.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
            return answer
        own, default = ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value
        policy = SimpleNamespace(value="compact", source=own)
        answer.set_result({"cleanup.policy": policy, "segment.ms": SimpleNamespace(value="1", source=default)})
        return answer


def test_only_what_is_set_of_a_topic_itself_is_taken_for_the_applications() -> None:
    admin: Any = Admin()
    assert topic_configs(admin, ["seen", "hidden"], 1.0) == {"seen": {"cleanup.policy": "compact"}}
    assert topic_configs(admin, [], 1.0) == {}
