"""Which groups can be led, and which members are Bellwether's: from descriptions of a group, without state."""

from collections.abc import Callable

from bellwether_kafka.coordinator.membership.config import (
    CLIENT_ID,
    STOCK_PROTOCOLS,
    STREAMS_PROTOCOL,
    MembershipConfig,
)
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember
from bellwether_kafka.coordinator.membership.role import Code, NotLeading, Obstacle
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import RemoteProtocolError

PROTOCOL_TYPE = "consumer"
MEMBER_ID_UUID_LENGTH = 36
NOT_TO_BE_CONVERTED = b"bellwether"


def subscription(topics: tuple[str, ...], *, streams: bool = False) -> bytes:
    """Returns Bellwether's own metadata: version 0 with empty userData, the only form that every foreign leader can
    read (docs/internals/wire-formats.md#version-rules).

    In a Streams group userData is a valid SubscriptionInfo, because a Java leader dies of anything else
    (docs/internals/client-quirks.md#a-foreign-member-under-a-java-streams-leader).
    """
    user_data = SubscriptionInfo().encode() if streams else b""
    return ConsumerProtocolSubscription(version=0, topics=topics, user_data=user_data).encode()


def empty_assignment(*, streams: bool = False) -> bytes:
    """Returns Bellwether's own assignment for a generation in which it is alone."""
    user_data = AssignmentInfo().encode() if streams else None
    return ConsumerProtocolAssignment(user_data=user_data).encode()


def with_own(
    assignments: tuple[tuple[str, bytes], ...], member_id: str, config: MembershipConfig
) -> tuple[tuple[str, bytes], ...]:
    """Adds userData to Bellwether's own empty assignment if an online conversion to KIP-848 is to be blocked: a broker
    does not convert a group if any assignment has userData. Assignments of Streams applications have it anyway."""
    if config.online_conversion == "allow" or config.streams:
        return assignments
    own = ConsumerProtocolAssignment(user_data=NOT_TO_BE_CONVERTED).encode()
    return tuple((name, own if name == member_id else blob) for name, blob in assignments)


def is_bellwether(member: DescribedMember, config: MembershipConfig) -> bool:
    """Returns whether the member is an instance of Bellwether, this one or another: by the process id in its Streams
    metadata, or if it has no work and subscribes as Bellwether does."""
    if _is_bellwether(member.metadata):  # its process id is zero, which Java never generates
        return True
    if _works(member):
        return False
    if is_own(member, config):
        return not _is_foreign(member, config)
    return _subscribes_as_another(member, config)


def _subscribes_as_another(member: DescribedMember, config: MembershipConfig) -> bool:
    """Returns whether the member subscribes as an instance with another instance id does: to nothing or the control
    topic. One that is alone lists its application's topics, so only its client id shows that it is Bellwether."""
    named = member.client_id == (config.client_id or CLIENT_ID)
    if not member.metadata:
        return named  # brokers show subscriptions of stable groups only
    if member.metadata in (subscription(()), subscription(config.topics)):
        return named or member.instance_id is not None  # kafka-python's, of a pattern that matches nothing, are equal
    try:
        topics = ConsumerProtocolSubscription.decode(member.metadata).topics
    except RemoteProtocolError:
        return False
    return named and member.metadata == subscription(topics)


def _is_bellwether(metadata: bytes) -> bool:
    try:
        info = SubscriptionInfo.decode(ConsumerProtocolSubscription.decode(metadata).user_data or b"")
    except RemoteProtocolError:
        return False
    return not info.future and info.process_id == SubscriptionInfo().process_id


def assigned_by_broker(answer: DescribeAnswer) -> bool:
    """Returns whether the group cannot be led by a client: KIP-848, KIP-1071 or share."""
    return "not a classic group" in answer.message


def unfit(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    """Returns why Bellwether can never lead this group, as a sentence with the remedy; None if it can."""
    return next((why for each in UNFIT if (why := each(answer, config)) is not None), None)


def _converted(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    if not assigned_by_broker(answer):
        return None
    return Obstacle(
        NotLeading.CONVERTED,
        f"Group '{config.group_id}' is not a classic consumer group: its broker assigns by itself (KIP-848 or"
        " another new protocol). Bellwether observes it, and leads again once its members have"
        " group.protocol=classic.",
    )


def _of_another_type(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    if answer.protocol_type in ("", PROTOCOL_TYPE):
        return None
    sentence = (
        f"Group '{config.group_id}' is of type '{answer.protocol_type}', not '{PROTOCOL_TYPE}': it does not belong to"
        " consumers; remove it from the configured groups."
    )
    return Obstacle(NotLeading.UNFIT, sentence)


def _with_another_protocol(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    # Bellwether also offers the protocol that a running group uses.
    stock = STOCK_PROTOCOLS if config.adopt != "when-empty" and not config.streams else ()
    if not answer.protocol or answer.protocol in (*config.protocols, *stock):
        return None
    used = f"uses the protocol '{answer.protocol}'"
    if config.streams:
        what = f'{used}, so it is no Kafka Streams application; remove kind = "streams" from its settings.'
    elif answer.protocol == STREAMS_PROTOCOL:
        what = 'is a Kafka Streams application; set kind = "streams" and its topology.'
    elif answer.protocol == STATEFUL_PROTOCOL:
        what = 'is made of stateful members; set kind = "stateful".'
    else:
        configured = ", ".join(config.protocols)
        what = f"{used}, which is not among the configured ones ({configured}); add it to protocols."
    return Obstacle(NotLeading.UNFIT, f"Group '{config.group_id}' {what}")


def _with_a_member_under_its_id(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    """Bellwether's JoinGroup would expel a member of the application that has its instance id."""
    taken = (m for m in answer.members if is_own(m, config) and (_works(m) or _is_foreign(m, config)))
    member = next(taken, None)
    if member is None:
        return None
    sentence = (
        f"Group '{config.group_id}': the group.instance.id '{config.instance_id}' belongs to the application's member"
        f" {member.member_id}; set another instance_id."
    )
    return Obstacle(NotLeading.UNFIT, sentence)


UNFIT: tuple[Callable[[DescribeAnswer, MembershipConfig], Obstacle | None], ...] = (
    _converted,
    _of_another_type,
    _with_another_protocol,
    _with_a_member_under_its_id,
)


def _works(member: DescribedMember) -> bool:
    try:
        return bool(member.assignment) and bool(ConsumerProtocolAssignment.decode(member.assignment).partitions)
    except RemoteProtocolError:
        return False


def _is_foreign(member: DescribedMember, config: MembershipConfig) -> bool:
    """Returns whether another program sent the member that has the configured instance id and no work. Brokers show
    subscriptions of stable groups only. An earlier process of Bellwether may have listed other topics."""
    if not member.metadata:
        return not _same_client(member, config)
    if member.metadata == subscription(config.topics, streams=config.streams):
        return False
    try:
        listed = ConsumerProtocolSubscription.decode(member.metadata).topics
    except RemoteProtocolError:
        return True
    own = _is_bellwether(member.metadata) if config.streams else member.metadata == subscription(tuple(listed))
    return not (own and _same_client(member, config))


def _same_client(member: DescribedMember, config: MembershipConfig) -> bool:
    """Returns whether the client id may be Bellwether's. Instances that share an instance id may have different client
    ids, and report to each other which of them is the member."""
    return config.standby or config.client_id is None or member.client_id in ("", config.client_id)


def is_missing(answer: DescribeAnswer) -> bool:
    return answer.error == Code.GROUP_ID_NOT_FOUND


def others_in(answer: DescribeAnswer, config: MembershipConfig) -> bool:
    """Returns whether members other than Bellwether's are in the group. A killed process of Bellwether without an
    instance id stays a member until its session ends."""
    return any(not (is_own(m, config) or _is_former(m, config)) for m in answer.members)


def _is_former(member: DescribedMember, config: MembershipConfig) -> bool:
    own_name = member.client_id == (config.client_id or CLIENT_ID)
    return _is_bellwether(member.metadata) or (member.instance_id is None and own_name and not _works(member))


def holds_instance(answer: DescribeAnswer, config: MembershipConfig) -> bool:
    """Returns whether a member with Bellwether's instance id exists: an earlier process of Bellwether, or another
    one."""
    return any(is_own(m, config) for m in answer.members)


def is_own(member: DescribedMember, config: MembershipConfig) -> bool:
    """Returns whether the member has Bellwether's instance id."""
    return config.instance_id is not None and member.instance_id == config.instance_id


def was_own(leader: str, config: MembershipConfig) -> bool:
    """Returns whether `leader` is a former member id of Bellwether, which are the instance id, a dash and a UUID.
    Brokers that know JoinGroup only up to v8 name the former id of a returned static leader as the leader
    (docs/internals/broker-behaviour.md#static-membership)."""
    if config.instance_id is None:
        return False
    prefix = f"{config.instance_id}-"
    return leader.startswith(prefix) and len(leader) == len(prefix) + MEMBER_ID_UUID_LENGTH
