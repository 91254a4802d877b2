"""Consumers that assign themselves partitions commit into a group that Bellwether is to lead, on real brokers."""

import time

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled

COMMITS, EVERY_S = 1_000, 0.01  # for longer than two refreshes of Bellwether
JOINED_S = 8.0


def refused(kafka: KafkaCluster, group: str, commits: int) -> int:
    """How many of so many commits of a consumer that uses assign() the broker refuses."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    failed = 0
    try:
        consumer.assign([TopicPartition(group, 0, 0)])
        for number in range(commits):
            try:
                consumer.commit(offsets=[TopicPartition(group, 0, number + 1)], asynchronous=False)
            except KafkaException:
                failed += 1
            time.sleep(EVERY_S)
    finally:
        consumer.close()
    return failed


def with_history(kafka: KafkaCluster, group: str) -> None:
    """Members have subscribed in the group, committed and gone."""
    with Flock(kafka.bootstrap) as flock:
        wait_settled([flock.member("confluent", group, [group], ["range"])], partitions_of({group: 3}), limit_s=90)
    assert not refused(kafka, group, 1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("history", [True, False], ids=["history", "none"])
@pytest.mark.parametrize("first", [True, False], ids=["bellwether-first", "consumer-first"])
def test_no_commit_of_a_consumer_that_assigns_itself_is_refused(
    kafka: KafkaCluster, *, history: bool, first: bool
) -> None:
    group = f"selves-{history}-{first}".lower()
    kafka.create_topic(group, 3)
    if history:
        with_history(kafka, group)
    before = 0 if first else refused(kafka, group, COMMITS // 2)
    lead = Bellwether(kafka, [group], own={group: {"subscribes": False}})
    lead.start(wait=False)
    try:
        if first:
            time.sleep(JOINED_S)
        assert before + refused(kafka, group, COMMITS if first else COMMITS // 2) == 0, lead.tail()
        assert not lead.is_member(group)
    finally:
        lead.__exit__(None, None, None)


@pytest.mark.timeout(240)
def test_none_is_refused_either_where_the_settings_say_that_all_consumers_subscribe(kafka: KafkaCluster) -> None:
    group = "selves-attested"
    kafka.create_topic(group, 3)
    assert not refused(kafka, group, 1)
    lead = Bellwether(kafka, [group])
    lead.start(wait=False)
    try:
        assert refused(kafka, group, 3 * COMMITS) == 0, lead.tail()
        lead.logged("role", reason="no_subscribers", group=group)
        assert not lead.is_member(group)
    finally:
        lead.__exit__(None, None, None)


@pytest.mark.timeout(300)
def test_a_group_that_is_held_empty_is_released(kafka: KafkaCluster) -> None:
    group, control = "released", "released-control"
    kafka.create_topic(group, 3)
    with Bellwether(kafka, [group], control_topic=control) as lead:
        assert refused(kafka, group, 1) == 1, "beside a member"
        ordered(kafka, control, "release", group, "--wait", "30")
        assert refused(kafka, group, COMMITS) == 0, lead.tail()
