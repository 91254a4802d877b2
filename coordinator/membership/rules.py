"""Rules of the membership machine that need no machine: which groups can be led, and when."""

import zlib
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.config import (
    CLIENT_ID,
    STOCK_PROTOCOLS,
    STREAMS_PROTOCOL,
    MembershipConfig,
)
from bellwether_kafka.coordinator.membership.errors import Code
from bellwether_kafka.coordinator.membership.events import VACANT, DescribeAnswer, DescribedMember
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import RemoteProtocolError

PROTOCOL_TYPE = "consumer"
DAY_S = 86_400.0
SAME_S = 1.0  # hand-backs that are not further apart are one: two clocks measure them
MEMBER_ID_UUID_LENGTH = 36
NOT_TO_BE_CONVERTED = b"bellwether"


def subscription(topics: tuple[str, ...], *, streams: bool = False) -> bytes:
    """Bellwether's own metadata: version 0 with empty userData, the only form that every foreign leader can read
    (docs/reference/wire-formats.md#version-rules).

    In a Streams group userData is a valid SubscriptionInfo: on anything else a Java leader dies
    (docs/reference/client-quirks.md#a-foreign-member-under-a-java-streams-leader).
    """
    user_data = SubscriptionInfo().encode() if streams else b""
    return ConsumerProtocolSubscription(version=0, topics=topics, user_data=user_data).encode()


def empty_assignment(*, streams: bool = False) -> bytes:
    """Bellwether's own assignment while Bellwether is alone."""
    user_data = AssignmentInfo().encode() if streams else None
    return ConsumerProtocolAssignment(user_data=user_data).encode()


def with_own(
    assignments: tuple[tuple[str, bytes], ...], member_id: str, config: MembershipConfig
) -> tuple[tuple[str, bytes], ...]:
    """Where an online conversion to KIP-848 is to be blocked, Bellwether's own empty assignment carries userData: a
    broker converts no group in which any assignment does. Streams applications carry some anyway."""
    if config.online_conversion == "allow" or config.streams:
        return assignments
    own = ConsumerProtocolAssignment(user_data=NOT_TO_BE_CONVERTED).encode()
    return tuple((name, own if name == member_id else blob) for name, blob in assignments)


def is_bellwether(member: DescribedMember, config: MembershipConfig) -> bool:
    """One of Bellwether's: no thread of an application, or without work, under its instance id and as it joins."""
    if _is_bellwether(member.metadata):  # known by its process id, zero, which Java never draws
        return True
    if config.instance_id is None or member.instance_id != config.instance_id:
        return False
    return not (_works(member) or _is_foreign(member, config))


def _is_bellwether(metadata: bytes) -> bool:
    try:
        info = SubscriptionInfo.decode(ConsumerProtocolSubscription.decode(metadata).user_data or b"")
    except RemoteProtocolError:
        return False
    return not info.future and info.process_id == SubscriptionInfo().process_id


def assigned_by_broker(answer: DescribeAnswer) -> bool:
    """The group is none that a client can lead: KIP-848, KIP-1071 or share."""
    return "not a classic group" in answer.message


def unfit(answer: DescribeAnswer, config: MembershipConfig) -> Obstacle | None:
    """Why Bellwether can never lead this group, as a sentence with the remedy; None if Bellwether can."""
    if assigned_by_broker(answer):
        return Obstacle(
            NotLeading.CONVERTED,
            f"Group '{config.group_id}' is not a classic consumer group: its broker assigns by itself (KIP-848 or"
            " another new protocol). Bellwether observes it, and leads again once its members have"
            " group.protocol=classic.",
        )
    sentence = _another_kind(answer, config) or _taken(answer, config)
    return Obstacle(NotLeading.UNFIT, sentence) if sentence else None


def _another_kind(answer: DescribeAnswer, config: MembershipConfig) -> str:
    group = config.group_id
    if answer.protocol_type not in ("", PROTOCOL_TYPE):
        return (
            f"Group '{group}' is of type '{answer.protocol_type}', not '{PROTOCOL_TYPE}': it does not belong to"
            " consumers; remove it from the configured groups."
        )
    own = config.protocols
    if config.adopt != "when-empty" and not config.streams:
        own += STOCK_PROTOCOLS  # what a running group uses is offered, too
    if answer.protocol and answer.protocol not in own:
        if config.streams:
            return (
                f"Group '{group}' uses the protocol '{answer.protocol}', so it is no Kafka Streams application; remove"
                ' kind = "streams" from its settings.'
            )
        if answer.protocol == STREAMS_PROTOCOL:
            return f"Group '{group}' is a Kafka Streams application; set kind = \"streams\" and its topology."
        if answer.protocol == STATEFUL_PROTOCOL:
            return f"Group '{group}' is made of stateful members; set kind = \"stateful\"."
        return (
            f"Group '{group}' uses the protocol '{answer.protocol}', which is not among the configured ones"
            f" ({', '.join(config.protocols)}); add it to protocols."
        )
    return ""


def _taken(answer: DescribeAnswer, config: MembershipConfig) -> str:
    """A member with the instance id that is no process of Bellwether would be thrown out by its JoinGroup."""
    for member in answer.members if config.instance_id is not None else ():
        if member.instance_id == config.instance_id and (_works(member) or _is_foreign(member, config)):
            return (
                f"Group '{config.group_id}': the group.instance.id '{config.instance_id}' belongs to the application's"
                f" member {member.member_id}; set another instance_id."
            )
    return ""


def _works(member: DescribedMember) -> bool:
    try:
        return bool(member.assignment) and bool(ConsumerProtocolAssignment.decode(member.assignment).partitions)
    except RemoteProtocolError:
        return False


def _is_foreign(member: DescribedMember, config: MembershipConfig) -> bool:
    """Whether a member that has no work, and the instance id that Bellwether is to use, has come from another program.
    Brokers show subscriptions of groups at rest only. An earlier process of Bellwether's may have listed other
    topics."""
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
    """Instances of one set may have client ids of their own, and report to each other which one is the member."""
    return config.standby or config.client_id is None or member.client_id in ("", config.client_id)


def is_missing(answer: DescribeAnswer) -> bool:
    return answer.error == Code.GROUP_ID_NOT_FOUND


def others_in(answer: DescribeAnswer, config: MembershipConfig) -> bool:
    """Whether members other than Bellwether's are in the group. A process of Bellwether's without an instance id that
    was killed is a member until its session ends."""
    return any(not (is_own(m, config) or _is_former(m, config)) for m in answer.members)


def _is_former(member: DescribedMember, config: MembershipConfig) -> bool:
    own_name = member.client_id == (config.client_id or CLIENT_ID)
    return _is_bellwether(member.metadata) or (member.instance_id is None and own_name and not _works(member))


def holds_instance(answer: DescribeAnswer, config: MembershipConfig) -> bool:
    """Bellwether's instance id is a member already: an earlier process of Bellwether's, or another one."""
    return any(is_own(m, config) for m in answer.members)


def is_own(member: DescribedMember, config: MembershipConfig) -> bool:
    """It has Bellwether's instance id."""
    return config.instance_id is not None and member.instance_id == config.instance_id


def was_own(leader: str, config: MembershipConfig) -> bool:
    """Brokers that know JoinGroup only up to v8 name a returned static leader's former member id as the leader
    (docs/reference/broker-behaviour.md#static-membership). Such ids are the instance id, a dash and a UUID."""
    if config.instance_id is None:
        return False
    prefix = f"{config.instance_id}-"
    return leader.startswith(prefix) and len(leader) == len(prefix) + MEMBER_ID_UUID_LENGTH


def spread(group_id: str) -> float:
    """A factor of 0.8 to 1.2, fixed per group, so that hundreds of groups do not retry in step."""
    return 0.8 + 0.4 * (zlib.crc32(group_id.encode()) % 1000) / 1000


def backed_off_ms(base_ms: float, failures: int, max_ms: float) -> float:
    return min(base_ms * 2.0 ** min(failures, 20), max_ms)


def _readopt_s(config: MembershipConfig, failures: int) -> float:
    """How long to stay away from a group after so many failures in a row."""
    return backed_off_ms(config.readopt_ms, failures, config.readopt_ms_max) * spread(config.group_id) / 1000


class JoinTiming:
    """When a watched group may be joined: nobody may notice, and never in quick repetition."""

    def __init__(self, config: MembershipConfig) -> None:
        self._config = config
        self._after = float("-inf")
        self._failures = 0
        self.setback: Obstacle | None = None  # what the last one was, until Bellwether has led again

    def set_back(self, now: float, why: Obstacle, wait_s_max: float = float("inf")) -> None:
        self.setback = why
        self._after = now + min(_readopt_s(self._config, self._failures), wait_s_max)
        self._failures += 1

    def wait_until(self, at: float) -> None:
        self._after = max(self._after, at)

    def may_try_in(self, now: float) -> float:
        """Seconds until the wait after a setback is over, 0 if there is none."""
        return max(0.0, self._after - now)

    def succeeded(self) -> None:
        self._failures = 0
        self.setback = None

    def may_join(self, answer: DescribeAnswer, now: float, *, awaits_members: bool) -> str:
        """The reason to join, "" to go on watching. `awaits_members`: not before a member has come."""
        if self.may_try_in(now):
            return ""
        if holds_instance(answer, self._config):
            return "its instance is still a member"
        empty = is_missing(answer) or answer.state in VACANT or not answer.members
        return "the group is empty" if empty and not awaits_members and self._config.adopt_empty else ""


class Permission:
    """Whether it is for Bellwether to lead: among instances with one instance id, and by operators' orders. `active` is
    False while another instance is to lead. Orders are sentences, "" for none: `kept_out` whatever members are in the
    group, `released` while no other member is."""

    def __init__(self, config: MembershipConfig) -> None:
        self._config = config
        self.active = not config.standby
        self.kept_out = ""
        self.released = ""
        self._fences = 0

    @property
    def may_lead(self) -> bool:
        return self.active and not self.kept_out

    def changed(self, *, active: bool) -> bool:
        """True if it has just become Bellwether's."""
        if not active:
            self._fences = 0
        gained = active and not self.active
        self.active = active
        return gained

    def fenced(self, *, expected: bool) -> float:
        """Another instance has the membership: seconds to stay away, where that was not announced."""
        surprised, self.active = self.active and not expected, False
        if not surprised:
            return 0.0
        self._fences += 1
        return _readopt_s(self._config, self._fences - 1)


@dataclass(slots=True)
class HandBacks:
    """Handing the lead back because members do not work by Bellwether's plan, and what must hold before it returns.
    `waits` for the proof that it may; `reason` is that of the last hand-back. Times are seconds of the membership's
    clock. At most once in a day, so that a mistake of the watch on work cannot change a leader again and again."""

    config: MembershipConfig
    reason: str = ""
    waits: bool = False
    lacks: str = ""  # what the last rehearsal has shown against a return
    _at: float | None = None

    def refusal(self, now: float) -> str:
        """Why the group is not handed back now, as a sentence part; "" where it is."""
        if self.config.hand_back == "alert":
            return 'hand_back = "alert" keeps the lead'
        if self._at is not None and now - self._at < DAY_S:
            return "it has been handed back once within 24 hours, and is not a second time"
        return ""

    def begins(self, now: float, reason: str) -> None:
        self._at, self.reason, self.waits, self.lacks = now, reason, True, ""

    def remembered(self, now: float, ago_s: float, reason: str, *, waits: bool) -> None:
        """An earlier process of Bellwether's, or another instance, handed the group back so long ago. What it says
        of an older hand-back than the last one counts no more."""
        at = now - ago_s
        if self._at is not None and at < self._at - SAME_S:
            return
        self._at, self.reason = at, reason
        self.waits, self.lacks = waits, self.lacks if waits else ""

    def over(self) -> None:
        """The proof is there, or an operator has asked for the lead."""
        self.waits, self.lacks = False, ""

    @property
    def obstacle(self) -> Obstacle:
        """Why Bellwether stays out, while `waits`."""
        lacks = f"; it stays out because {self.lacks}" if self.lacks else ""
        return Obstacle(NotLeading.HANDED_BACK, f"Bellwether has handed the lead back: {self.reason}{lacks}")
