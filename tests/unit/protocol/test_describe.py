import json

import pytest

from bellwether_kafka.protocol import blob_to_json
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError, TopicPartition
from tests.vectors import CLASSES, VECTORS

KINDS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "SubscriptionInfo", "AssignmentInfo")


def test_the_kinds_are_those_of_the_vectors() -> None:
    assert set(KINDS) == set(CLASSES) == {v["kind"] for v in VECTORS}


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(LocalProtocolError) as caught:
        blob_to_json("Subscription", b"")
    assert all(kind in str(caught.value) for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_undecodable_bytes(kind: str) -> None:
    with pytest.raises(RemoteProtocolError):
        blob_to_json(kind, b"\0")


def test_a_subscription_is_json() -> None:
    data = ConsumerProtocolSubscription(3, ("t",), b"\1", (TopicPartition("t", 2),), 7).encode()
    described = blob_to_json("ConsumerProtocolSubscription", data)
    assert (
        json.loads(json.dumps(described))
        == described
        == {
            "kind": "ConsumerProtocolSubscription",
            "version": 3,
            "topics": ["t"],
            "user_data": "01",
            "owned_partitions": [["t", 2]],
            "generation_id": 7,
            "rack_id": None,
            "hex": data.hex(),
        }
    )


def test_of_a_future_subscription_info_only_the_versions_are_known() -> None:
    described = blob_to_json("SubscriptionInfo", bytes.fromhex("0000000c 0000000c"))
    assert described == {
        "kind": "SubscriptionInfo",
        "version": 12,
        "latest_supported_version": 12,
        "hex": "0000000c0000000c",
    }
