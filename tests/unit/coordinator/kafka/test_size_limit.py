"""What brokers' answers about group.max.size come to."""

from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.kafka.client.broker_configs import size_limit

SILENT = KafkaError(KafkaError._TIMED_OUT)
DENIED = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def test_the_smallest_counts() -> None:
    assert size_limit({1: 100, 2: 50, 3: 200}).members == 50


def test_one_silent_broker_leaves_it_unknown_and_is_named() -> None:
    """It may become the group's coordinator node, and the limit of the others would not be its own."""
    limit = size_limit({1: 100, 2: SILENT, 3: 200})
    assert limit.members is None
    assert limit.unknown.startswith("1 of 3 brokers have not sent their group.max.size (broker 2: ")
    assert limit.remedy == "wait until Bellwether asks again"


def test_a_missing_right_is_named_with_its_acl_and_not_as_silence() -> None:
    limit = size_limit({1: DENIED, 2: SILENT})
    assert limit.members is None
    assert "may not read" in limit.unknown
    assert "DESCRIBE_CONFIGS on the cluster" in limit.remedy


def test_brokers_without_such_a_setting_leave_it_unknown() -> None:
    assert size_limit({1: None}).members is None
    assert size_limit({1: None, 2: 50}).members is None
    assert size_limit({}).members is None
