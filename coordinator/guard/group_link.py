"""Requests about one group: describes it and removes members.

LeaveGroup removes members of classic groups and of groups of the consumer protocol, the heartbeat of their own protocol
those of the streams protocol (docs/internals/broker-behaviour.md#kip-848-conversion). A group whose broker assigns is
shown as DescribeGroups would, so that the guard knows one kind of answer. An error that a retry cannot fix is reported
as a sentence.
"""

import asyncio
from collections.abc import Mapping, Sequence

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.groups import Describer, Requests
from bellwether_kafka.coordinator.kafka.wire import (
    BROKER_PROTOCOLS,
    BrokerGroup,
    BrokerMember,
    BrokerProtocol,
    RemovedMembers,
    RemoveStreamsMember,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, DescribedMember, Failure, GroupState, Node
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition

# While members give up partitions or wait for some, the state is that of a rebalance.
STATES = {"Stable": GroupState.STABLE, "Empty": GroupState.EMPTY, "Dead": GroupState.DEAD}
ASSIGNMENT_VERSION = 0


def as_described(group: BrokerGroup) -> DescribeAnswer:
    """Returns the group with its members and what they have: partitions, of an application the active tasks, each as a
    partition of a topic that is called as its subtopology.

    Members that have died are listed until their sessions end, also in a stable group. So which of two with one client
    id is dead does not show.
    """
    state = STATES.get(group.state, GroupState.PREPARING)
    members = tuple(_as_described(member) for member in group.members)
    return DescribeAnswer(0, group.error, state, group.protocol, group.assignor, members, group.message)


def _as_described(member: BrokerMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        assignment=_assignment(member),
        client_id=member.client_id,
        client_host=member.client_host,
    )


def _assignment(member: BrokerMember) -> bytes:
    partitions = tuple(TopicPartition(topic, number) for topic, numbers in member.assigned for number in numbers)
    return ConsumerProtocolAssignment(version=ASSIGNMENT_VERSION, partitions=partitions).encode()


REQUEST_TIMEOUT_MS = 2_000
RETRY_S = 0.1
# Temporary errors, while a coordinator node moves or starts. All other errors are final.
PASSING = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
SHARE_GROUP = "it is neither a group of consumers nor of Kafka Streams, and a share group has no partitions to free"
DONE = (Code.NONE, Code.UNKNOWN_MEMBER_ID)  # the member was removed, or had already left


class GroupLink:
    """Requests about one group, for use in one event loop. `trouble` is why the last request failed, "" if it
    succeeded."""

    def __init__(self, transport: Requests, group_id: str) -> None:
        self.group_id = group_id
        self.transport = transport
        self.trouble = ""
        self._describer = Describer(transport, REQUEST_TIMEOUT_MS)
        self._protocol: BrokerProtocol | None = None  # None: a classic group

    async def node(self) -> Node | None:
        """Returns the coordinator node, None if not found. It also answers requests for which any broker will do."""
        try:
            node = await self._describer.node_of(self.group_id)
        except TransportError as error:
            self.lost(str(error))
            return None
        if isinstance(node, Node):
            return node
        self.lost(_why(node, self.group_id))
        return None

    async def describe(self) -> DescribeAnswer | None:
        """Returns the description of the group, None if it cannot be used (`trouble` is why)."""
        if await self.node() is None:
            return None
        try:
            answer = await self._describer.describe_group(self.group_id)
            if membership.assigned_by_broker(answer):
                answer = await self._describe_by_broker()
            else:
                self._protocol = None  # not before: a removal may begin while a broker is asked which protocol it is
        except TransportError as error:
            self.lost(str(error))
            return None
        if answer.error not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            self.lost(_why(answer.error, self.group_id))
            return None
        self.trouble = ""
        return answer

    async def _describe_by_broker(self) -> DescribeAnswer:
        """Returns the description of a group whose broker assigns. Raises TransportError."""
        for protocol in BROKER_PROTOCOLS:
            group = await self._describer.describe_by_broker(self.group_id, protocol)
            if group.error != Code.GROUP_ID_NOT_FOUND:
                self._protocol = protocol
                return as_described(group)
        raise TransportError(Failure.UNSUPPORTED, SHARE_GROUP)

    async def remove(self, member_ids: Sequence[str], reason: str) -> Mapping[str, int]:
        """Sends LeaveGroup for these members and retries until a broker gives a final answer. Returns Kafka's code for
        each member; empty if the whole request was refused (`trouble` says why). Call it with a timeout."""
        while True:
            node = await self.node()
            answer = await self._try_to_remove(node, member_ids, reason) if node is not None else None
            if answer is not None and answer.error not in PASSING:
                if answer.error:
                    self.lost(_why(answer.error, self.group_id))
                return answer.errors if not answer.error else {}
            await asyncio.sleep(RETRY_S)

    async def _try_to_remove(self, node: Node, member_ids: Sequence[str], reason: str) -> RemovedMembers | None:
        try:
            if self._protocol == "streams":
                answer = await self._end_streams_members(node, member_ids)
            else:
                answer = await self._describer.remove_from(self.group_id, dict.fromkeys(member_ids, reason))
        except TransportError as error:
            self.lost(str(error))
            return None
        if answer.error in PASSING:
            self.lost(membership.name_of(answer.error))
        return answer

    async def _end_streams_members(self, node: Node, member_ids: Sequence[str]) -> RemovedMembers:
        codes = {
            member_id: await self.transport.ask(RemoveStreamsMember(node, self.group_id, member_id, REQUEST_TIMEOUT_MS))
            for member_id in member_ids
        }
        of_group = next((code for code in codes.values() if code in (*PASSING, Code.GROUP_AUTHORIZATION_FAILED)), 0)
        return RemovedMembers(of_group, codes)

    def lost(self, why: str) -> None:
        """Records the failure and forgets the coordinator node, so that the next request finds it again."""
        self._describer.forget(self.group_id)
        self.trouble = why


def _why(error: int, group_id: str) -> str:
    if error == Code.GROUP_AUTHORIZATION_FAILED:
        return f"Bellwether's principal needs the ACL READ on Group '{group_id}'"
    return membership.name_of(error)
