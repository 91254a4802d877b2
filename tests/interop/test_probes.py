"""/livez and /readyz while Bellwether's JoinGroup is parked: a leader that waits for members is alive and ready. And
the lags of the status page."""

import json
import threading
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import RawMember, describe

GROUP = "probed-orders"
SESSION_MS = 120_000  # nobody is thrown out while the test looks


def answer(address: str, path: str) -> tuple[int, str]:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as message:
        return message.status, message.read().decode().strip()


@pytest.mark.proof
@pytest.mark.timeout(240)
def test_a_leader_that_waits_in_a_join_is_alive_and_ready(kafka: KafkaCluster) -> None:
    kafka.create_topic(GROUP, 4)
    read_some(kafka)
    protocols = [("range", ConsumerProtocolSubscription(topics=(GROUP,)).encode())]
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"

    def state() -> str:
        return describe(kafka.bootstrap, GROUP).state

    with (
        Bellwether(kafka, [GROUP], http_address=address) as lead,
        RawMember(kafka.bootstrap, GROUP, protocols, session_ms=SESSION_MS) as first,
        RawMember(kafka.bootstrap, GROUP, protocols, session_ms=SESSION_MS) as second,
    ):
        first.rebalance()
        wait_until(lambda: state() == "Stable", 60, lead.tail)
        joining = threading.Thread(target=second.rebalance, daemon=True)
        joining.start()
        # The rebalance is held up until the first member joins again, for as long as its rebalance timeout (30 s).
        wait_until(lambda: state() == "PreparingRebalance", 60, lead.tail)
        reported = [answer(address, path) for path in ("/livez", "/readyz", "/livez", "/readyz")]
        leading = 'bellwether_group_leading{group="probed-orders"} 1.0' in answer(address, "/metrics")[1]
        still = state()
        first.rebalance()
        joining.join(60)
        assert reported == [(200, "ok")] * 4
        assert leading
        assert still == "PreparingRebalance", "the answers came while the leader waited"
        assert not joining.is_alive()
        assert sorted(m.instance_id or "" for m in describe(kafka.bootstrap, GROUP).members) == ["", "", "bellwether"]
        # Read once the page asks, so shown at a later refresh.
        expected_lags = {f"{GROUP}-0": 0, f"{GROUP}-1": 3, f"{GROUP}-2": None, f"{GROUP}-3": None}
        wait_until(lambda: lags(address) == expected_lags, 60, lead.tail)
    lease.release()


def read_some(kafka: KafkaCluster) -> None:
    """Ten records in each of two partitions: one has been read to its end, three are left of the other."""
    client = kafka.client_config("admin", "admin")
    producer = Producer(client)
    for partition in (0, 1):
        for _ in range(10):
            producer.produce(GROUP, b"x", partition=partition)
    assert producer.flush(60) == 0
    consumer = Consumer({**client, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(GROUP, 0, 10), TopicPartition(GROUP, 1, 7)], asynchronous=False)
    consumer.close()


def lags(address: str) -> dict[str, int | None]:
    """By partition, as the page has them."""
    picture = json.loads(answer(address, f"/api/groups/{GROUP}")[1])
    return {item["name"]: item["lag"] for holder in picture["holders"] for item in holder["items"]}
