"""The embedded brokers: racks, topics and outages as real clients see them."""

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.kit.brokers import EmbeddedCluster, EmbeddedClusterError

pytestmark = pytest.mark.embedded


def quiet_admin(bootstrap: str) -> AdminClient:
    """Keep the client in a variable: a future of one that is collected fails with "Handle is terminating"."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def racks(admin: AdminClient) -> dict[int, str]:
    return {node.id: node.rack for node in admin.describe_cluster(request_timeout=10).result().nodes}


def test_three_brokers_are_in_three_racks() -> None:
    with EmbeddedCluster() as brokers:
        assert racks(quiet_admin(brokers.bootstrap)) == {1: "az1", 2: "az2", 3: "az3"}


def test_racks_repeat_over_more_brokers() -> None:
    with EmbeddedCluster(brokers=4, racks=("a", "b")) as brokers:
        assert racks(quiet_admin(brokers.bootstrap)) == {1: "a", 2: "b", 3: "a", 4: "b"}


def test_a_topic_has_the_partitions_and_replicas_that_were_asked_for() -> None:
    with EmbeddedCluster() as brokers:
        brokers.create_topic("orders", partitions=6, replicas=2)
        admin = quiet_admin(brokers.bootstrap)
        described = admin.describe_topics(TopicCollection(["orders"]), request_timeout=10)
        partitions = described["orders"].result().partitions
    assert [p.id for p in partitions] == list(range(6))
    assert {len(p.replicas) for p in partitions} == {2}


def test_a_topic_that_exists_is_refused_with_a_sentence() -> None:
    with EmbeddedCluster() as brokers:
        brokers.create_topic("orders", 1)
        with pytest.raises(EmbeddedClusterError, match=r"orders.*already exists"):
            brokers.create_topic("orders", 1)


def test_a_broker_goes_down_and_comes_back() -> None:
    with EmbeddedCluster() as brokers:
        admin = quiet_admin(brokers.bootstrap)
        brokers.set_broker_down(2)
        assert racks(admin) == {1: "az1", 3: "az3"}
        brokers.set_broker_up(2)
        assert racks(admin) == {1: "az1", 2: "az2", 3: "az3"}


def test_close_may_be_called_twice() -> None:
    brokers = EmbeddedCluster()
    brokers.close()
    brokers.close()
