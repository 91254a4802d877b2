"""A group whose broker assigns (KIP-848, KIP-1071) as DescribeGroups would show it, so that the guard knows one kind of
answer. Pure."""

from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, GroupState
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
