"""LeaveGroup on behalf of others over kafka-python: request, and response as plain values. Belongs to `transport`.

READ on the group is all that a broker asks for (docs/reference/broker-behaviour.md#leavegroup), so members are removed
only with proof.
"""

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.group import LeaveGroupRequest

from bellwether_kafka.coordinator.membership import Node

BATCH_FROM = 3  # KIP-345, Kafka 2.4; reasons since version 5
REASON_LENGTH_MAX = 255


@dataclass(frozen=True, slots=True)
class RemovedMembers:
    """`error` is the request's, `errors` has Kafka's code per member id, 0 for removed."""

    error: int
    errors: dict[str, int]


@dataclass(frozen=True, slots=True)
class RemoveMembers:
    """Removes these dynamic members, each with a reason for the broker's log, in one request."""

    node: Node
    group_id: str
    members: tuple[tuple[str, str], ...]  # member id, reason
    timeout_ms: int

    def message(self) -> Any:
        entry = LeaveGroupRequest.MemberIdentity
        members = [
            entry(member_id=member_id, group_instance_id=None, reason=reason[:REASON_LENGTH_MAX])
            for member_id, reason in self.members
        ]
        return LeaveGroupRequest(group_id=self.group_id, members=members, min_version=BATCH_FROM)

    def answer(self, response: Any) -> RemovedMembers:
        return RemovedMembers(response.error_code, {m.member_id: m.error_code for m in response.members or ()})
