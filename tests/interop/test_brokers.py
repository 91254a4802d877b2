"""The test brokers are what tests believe them to be."""

from bellwether_kafka.coordinator.kafka.client import read_size_limit
from tests.interop.support.brokers import KafkaCluster


def test_brokers_are_in_racks_and_replicas_are_where_a_test_wants_them(kafka: KafkaCluster) -> None:
    kafka.create_topic("brokers-placed", assignment=[[1, 2], [2, 3], [3, 1]])
    cluster = kafka.admin.describe_cluster().result(timeout=10)
    assert {node.id: node.rack for node in cluster.nodes} == {1: "az1", 2: "az2", 3: "az3"}

    kafka.add_partitions("brokers-placed", 5)
    partitions = kafka.admin.list_topics("brokers-placed", timeout=5).topics["brokers-placed"].partitions
    assert [partitions[p].replicas for p in range(3)] == [[1, 2], [2, 3], [3, 1]]
    assert len(partitions) == 5


def test_the_limit_of_a_group_is_read_from_every_broker(kafka: KafkaCluster) -> None:
    assert read_size_limit(kafka.admin, 10).members == 2**31 - 1
