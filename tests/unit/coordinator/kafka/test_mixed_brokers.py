"""Brokers of different releases in one cluster, as during each upgrade."""

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from bellwether_kafka.coordinator.kafka.client import ClusterReader, oldest_release
from bellwether_kafka.coordinator.kafka.wire import Transport, librdkafka_properties
from bellwether_kafka.coordinator.membership import Node
from tests.kit.answering_brokers import LOOPBACK, Brokers, Size

OLD, NEW = 0, 1


class Mixed(Brokers):
    """The first broker is older than the others, and lacks a request of theirs until it is `upgraded`."""

    upgraded = False

    def _api_versions(self, request: Any, version: int, node: int) -> Any:
        answer = super()._api_versions(request, version, node)
        if node == OLD and not self.upgraded:
            answer.api_keys = [key for key in answer.api_keys if key.api_key != DescribeGroupsRequest.API_KEY]
            (offsets,) = (key for key in answer.api_keys if key.api_key == ListOffsetsRequest.API_KEY)
            offsets.max_version = 5
        return answer


async def test_the_oldest_broker_decides_what_has_been_tried() -> None:
    """A take-over began if the first bootstrap server was new enough, although an older broker coordinated the group:
    it names another leader, so that members were removed in vain."""
    brokers = Mixed(Size(4, 1, 1))
    await brokers.serve()
    properties = {"bootstrap.servers": f"{LOOPBACK}:{brokers.ports[NEW]}"}
    transport, reader = Transport(properties), ClusterReader(librdkafka_properties(properties))
    await transport.start()
    before = transport.broker_version
    assert await oldest_release(transport, reader) < before
    brokers.upgraded = True
    assert await oldest_release(transport, reader) == before
    await transport.close()
    brokers.close()


async def test_each_broker_gets_the_requests_that_it_supports_whatever_the_first_one_supports() -> None:
    """A process that was started before an upgrade of the brokers did without all requests that came with it, so that
    KIP-848 and KIP-1071 groups did not exist for it until its restart."""
    brokers = Mixed(Size(4, 1, 1))
    await brokers.serve()
    transport = Transport({"bootstrap.servers": f"{LOOPBACK}:{brokers.ports[OLD]}"})
    await transport.start()
    group = brokers.size.group(0)
    assert group in await transport.describe_groups(Node(NEW, LOOPBACK, brokers.ports[NEW]), [group])
    brokers.upgraded = True
    assert group in await transport.describe_groups(Node(OLD, LOOPBACK, brokers.ports[OLD]), [group])
    await transport.close()
    brokers.close()
