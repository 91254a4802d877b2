"""Consumers that assign themselves partitions commit into a group that Bellwether is to lead, on real brokers."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled

EVERY_S = 0.1
COMMITTING_S = 15.0  # longer than two refreshes of Bellwether
JOINED_S = 8.0


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a group is when the consumer begins to commit. `members`: some have subscribed in it and gone. `before_s`:
    the consumer has committed for so long before Bellwether started, once if it is 0, not at all if it is None.
    `wait_s`: it begins so long after Bellwether has started, and goes on for `for_s`."""

    group: str
    members: bool = False
    before_s: float | None = None
    wait_s: float = 0.0
    for_s: float = COMMITTING_S
    subscribes: bool = False


BEGINNINGS = (
    Beginning("selves-former", members=True, before_s=0.0, wait_s=JOINED_S),
    Beginning("selves-former-later", members=True, before_s=5.0),
    Beginning("selves-new", wait_s=JOINED_S),
    Beginning("selves-new-later", before_s=5.0),
    # The settings say that all consumers subscribe; a look at the offsets every ten seconds shows that they do not.
    Beginning("selves-attested", before_s=0.0, for_s=3 * COMMITTING_S, subscribes=True),
)


def refused(kafka: KafkaCluster, group: str, for_s: float) -> int:
    """How many commits of a consumer that uses assign() the broker refuses in this time; at least one is tried."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    failed, offset, until = 0, 0, time.monotonic() + for_s
    try:
        consumer.assign([TopicPartition(group, 0, 0)])
        while not offset or time.monotonic() < until:
            offset += 1
            try:
                consumer.commit(offsets=[TopicPartition(group, 0, offset)], asynchronous=False)
            except KafkaException:
                failed += 1
            time.sleep(EVERY_S)
    finally:
        consumer.close()
    return failed


def begin(kafka: KafkaCluster, beginning: Beginning) -> int:
    """Brings the group into its first state. Returns how many commits were refused."""
    group = beginning.group
    kafka.create_topic(group, 3)
    if beginning.members:
        with Flock(kafka.bootstrap) as flock:
            wait_settled([flock.member("confluent", group, [group], ["range"])], partitions_of({group: 3}), limit_s=90)
    return 0 if beginning.before_s is None else refused(kafka, group, beginning.before_s)


def go_on(kafka: KafkaCluster, beginning: Beginning) -> int:
    time.sleep(beginning.wait_s)
    return refused(kafka, beginning.group, beginning.for_s)


@pytest.mark.timeout(240)
def test_no_commit_of_a_consumer_that_assigns_itself_is_refused(kafka: KafkaCluster) -> None:
    """In all groups of one process at once, because each is looked at for a while."""
    own = {each.group: {"subscribes": each.subscribes} for each in BEGINNINGS}
    lead = Bellwether(kafka, list(own), own=own)
    try:
        with ThreadPoolExecutor(len(BEGINNINGS)) as pool:
            before = list(pool.map(partial(begin, kafka), BEGINNINGS))
            lead.start(wait=False)
            lead.logged("role", 60.0)  # a process that starts looks at no offsets yet
            later = list(pool.map(partial(go_on, kafka), BEGINNINGS))
        assert [before, later] == [[0] * len(own)] * 2, lead.tail()
        lead.logged("role", reason="no_subscribers", group="selves-attested")
        assert not [group for group in own if lead.is_member(group)]
    finally:
        lead.__exit__(None, None, None)


@pytest.mark.timeout(300)
def test_a_group_that_is_held_empty_is_released(kafka: KafkaCluster) -> None:
    group, control = "released", "released-control"
    kafka.create_topic(group, 3)
    with Bellwether(kafka, [group], control_topic=control) as lead:
        assert refused(kafka, group, 0.0) == 1, "beside a member"
        ordered(kafka, control, "release", group, "--wait", "30")
        assert refused(kafka, group, COMMITTING_S) == 0, lead.tail()
