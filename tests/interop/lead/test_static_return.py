"""Static members that are restarted within their session (KAFKA-12759): with one more topic it has an owner soon, and
an ordinary restart causes no rebalance."""

import time

import pytest

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, wait_until
from tests.interop.support.rebalances import rebalances

pytestmark = pytest.mark.broker

SESSION_MS = 30_000
RESTARTS = 10
OWNED_WITHIN_S = 20.0  # an interval of 5 s, and a rebalance whose members answer at their heartbeats
PARTITIONS = 4


def test_static_member_that_returns_with_one_more_topic_gets_it_soon(kafka: KafkaCluster) -> None:
    group, first, second = "static-return", "static-return-first", "static-return-second"
    for topic in (first, second):
        kafka.create_topic(topic, PARTITIONS)
    with Bellwether(kafka, [group]) as bellwether, Flock(kafka.bootstrap) as flock:

        def started(instance: str, *topics: str) -> Member:
            return flock.member("confluent", group, topics, instance=instance, session_ms=SESSION_MS, own_process=True)

        def owned(topic: str) -> int:
            return len({tp for member in flock.live(group) for tp in member.owned() if tp[0] == topic})

        members = {instance: started(instance, first) for instance in ("one", "two")}
        wait_until(lambda: owned(first) == PARTITIONS, 60, bellwether.tail)
        time.sleep(5)  # nothing is left to hand over
        before = len(rebalances(kafka, group))
        for number in range(RESTARTS):
            instance = ("one", "two")[number % 2]
            members[instance].kill()
            members[instance] = started(instance, first)
            wait_until(lambda: owned(first) == PARTITIONS, 30, bellwether.tail)
        time.sleep(12)
        assert len(rebalances(kafka, group)) == before, "an ordinary restart is no reason to rebalance"
        members["one"].kill()
        members["one"] = started("one", first, second)
        wait_until(lambda: owned(second) == PARTITIONS, OWNED_WITHIN_S, bellwether.tail)
        reasons = [entry["reason"] for entry in bellwether.log("membership", group=group, what="REJOINING")]
        assert any("static member one has returned and subscribes to" in reason for reason in reasons), reasons
