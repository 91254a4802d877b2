"""The plain codecs: what is written is read back, and no bytes whatever raise anything but RemoteProtocolError."""

import contextlib
import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.assignors.shared import Memory
from bellwether_kafka.protocol import blob_to_json
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
    read_generation,
    read_rack_affinity,
)
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError, Writer
from tests.kit.consumers import cluster_of, raw_group, read_group
from tests.properties.protocol.protocol_strategies import (
    ASSIGNMENTS,
    SUBSCRIPTIONS,
    TEXT,
    USER_DATA,
    assignment_infos,
    mutated,
    subscription_infos,
)
from tests.vectors import VECTORS

KINDS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "SubscriptionInfo", "AssignmentInfo")

CLUSTER = cluster_of({"t": 4, "u": 2, "v": 3})
VECTOR_BLOBS = st.sampled_from([(v["kind"], bytes.fromhex(v["hex"])) for v in VECTORS])


@given(SUBSCRIPTIONS)
def test_subscriptions_come_back_sorted_and_without_what_the_version_lacks(
    message: ConsumerProtocolSubscription,
) -> None:
    read = ConsumerProtocolSubscription.decode(message.encode())
    assert sorted(read.topics) == sorted(message.topics)
    assert sorted(read.owned_partitions) == (sorted(message.owned_partitions) if message.version >= 1 else [])
    expected = dataclasses.replace(
        message,
        topics=read.topics,
        owned_partitions=read.owned_partitions,
        generation_id=message.generation_id if message.version >= 2 else -1,
        rack_id=(message.rack_id or None) if message.version >= 3 else None,
    )
    assert read == expected
    assert ConsumerProtocolSubscription.decode(read.encode()) == read


@given(ASSIGNMENTS)
def test_assignments_come_back(message: ConsumerProtocolAssignment) -> None:
    read = ConsumerProtocolAssignment.decode(message.encode())
    assert sorted(read.partitions) == sorted(message.partitions)
    assert (read.version, read.user_data) == (message.version, message.user_data)
    assert read.encode() == message.encode()


@given(subscription_infos())
def test_subscription_infos_come_back(info: SubscriptionInfo) -> None:
    assert SubscriptionInfo.decode(info.encode()) == info


@given(assignment_infos())
def test_assignment_infos_come_back(info: AssignmentInfo) -> None:
    assert AssignmentInfo.decode(info.encode()) == info


@given(TEXT)
def test_javas_strings_come_back(text: str) -> None:
    writer = Writer()
    writer.utf(text)
    writer.utf16(text)
    reader = Reader(writer.getvalue())
    assert (reader.utf(), reader.utf16(), reader.remaining) == (text, text, 0)


@given(st.data())
def test_mutated_vectors_decode_or_are_the_peers_fault(data: st.DataObject) -> None:
    kind, blob = data.draw(VECTOR_BLOBS)
    with contextlib.suppress(RemoteProtocolError):
        blob_to_json(kind, data.draw(mutated(st.just(blob))))


@given(st.sampled_from(KINDS), st.binary(max_size=80))
def test_any_bytes_decode_or_are_the_peers_fault(kind: str, blob: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        blob_to_json(kind, blob)


@given(mutated(USER_DATA.map(lambda data: data or b"")), st.sampled_from(["sticky", "cooperative-sticky"]))
def test_any_user_data_is_a_claim_or_none(user_data: bytes, protocol: str) -> None:
    assert read_generation(user_data) >= -1
    read_rack_affinity(user_data)
    subscription = ConsumerProtocolSubscription(1, ("t", "u"), user_data)
    claims = read_group(raw_group({"m": subscription.encode()}, protocol=protocol), CLUSTER, Memory.empty()).claims
    assert claims.tolist() == sorted({flat for flat in claims.tolist() if CLUSTER.name(flat).topic in {"t", "u"}})
