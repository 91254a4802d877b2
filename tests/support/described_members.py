"""Described members of consumers and of applications."""

from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId

GROUP = "wordcount"
P1 = "00112233-4455-6677-8899-aabbccddeeff"
P2 = "00112233-4455-6677-8899-aabbccddee00"


def thread_id(process: str, number: int = 1, group: str = GROUP) -> str:
    return f"{group}-{process}-StreamThread-{number}-consumer"


def subscribed(process: str) -> bytes:
    info = SubscriptionInfo(process_id=ProcessId.of_bytes(bytes.fromhex(process.replace("-", ""))))
    return ConsumerProtocolSubscription(version=3, topics=("in",), user_data=info.encode()).encode()


def thread(member_id: str, process: str = P1, number: int = 1, host: str = "/10.0.0.1") -> DescribedMember:
    return DescribedMember(member_id, None, subscribed(process), client_id=thread_id(process, number), client_host=host)


def plain(member_id: str, client_id: str = "app-1", host: str = "/10.0.0.1") -> DescribedMember:
    return DescribedMember(member_id, None, client_id=client_id, client_host=host)
