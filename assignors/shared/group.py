"""What a leader is asked and may answer: a group as the broker presents it, with undecoded bytes, a hypothetical change
to it, and the refusal to decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class RawMember:
    """A member in the JoinGroup response. `rack` is its rack by Bellwether's configuration, for a member whose metadata
    names none; `leader_only` says that it then fetches from partition leaders only. `client_id` is set where the member
    id does not begin with it: in groups that their broker assigns."""

    member_id: str
    instance_id: str | None
    metadata: bytes
    rack: str | None = None
    leader_only: bool = False
    client_id: str = ""

    @property
    def key(self) -> str:
        return self.instance_id or self.member_id


def racks_of(members: Sequence[RawMember], sent: Sequence[str | None]) -> tuple[list[str | None], list[bool]]:
    """Returns the rack of each member, and whether it fetches from leaders only. `sent` are the racks in the members'
    metadata, which win over the configuration."""
    if not any(member.rack for member in members):
        return [*sent], [False] * len(members)
    pairs = [
        (rack, False) if rack or not member.rack else (member.rack, member.leader_only)
        for member, rack in zip(members, sent, strict=True)
    ]
    return [rack for rack, _ in pairs], [leader_only for _, leader_only in pairs]


@dataclass(frozen=True, slots=True)
class RawGroup:
    """A leader's JoinGroup response. `own_member_ids` are Bellwether's own members, which views never contain.
    `resting` means that no member has joined again; what members hold according to memory is then newer than their
    metadata."""

    group_id: str
    generation: int
    protocol: str
    members: tuple[RawMember, ...]
    own_member_ids: frozenset[str] = frozenset()
    resting: bool = False

    @property
    def others(self) -> tuple[RawMember, ...]:
        own = self.own_member_ids
        return tuple([m for m in self.members if m.member_id not in own]) if own else self.members


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member of a stable group as DescribeGroups returns it."""

    member_id: str
    instance_id: str | None
    metadata: bytes
    assignment: bytes


class WhatIfError(ValueError):
    """Raised if a change names something that the group does not have. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Change:
    """A hypothetical change. `without_members` are ids of members that leave; the members in `without_racks` leave too.
    `new_members` has the rack of each new member ("" for none); new members are copies of the first member that
    remains. `topics` maps topics to their new number of partitions."""

    without_members: tuple[str, ...] = ()
    without_racks: tuple[str, ...] = ()
    new_members: tuple[str, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)


class RefusalCause(Enum):
    """What must change before another attempt can succeed."""

    MEMBERS = "members"  # no member can be read, or no assignment serves all their versions
    TOPOLOGY = "topology"  # it contradicts the members: read it again, or let a Java member lead
    TOPICS = "topics"  # a topic is missing or cannot be read, or partition counts contradict each other
    INTERNAL_TOPICS = "internal topics"  # one is missing or does not have the size that the application needs
    CONFIG = "configuration"  # Bellwether's configuration differs from the application's
    PLAN = "plan"  # no valid plan, by a defect of an assignor or of Bellwether, or the plan came too late


@dataclass(frozen=True, slots=True)
class Refusal:
    """The decision to send nothing: Bellwether leaves the group, and a member takes over. `reason` is a sentence for
    operators."""

    cause: RefusalCause
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether no other plan for the same members and topics could succeed."""
        return self.cause is not RefusalCause.PLAN

    def error(self) -> "RefusalError":
        return RefusalError(self.cause, self.reason, self.warnings)


class RefusalError(Exception):
    """Carries a refusal to the function that returns it, or across threads and processes to the planner."""

    def __init__(self, cause: RefusalCause, reason: str, warnings: tuple[str, ...] = ()) -> None:
        super().__init__(cause, reason, warnings)
        self.refusal = Refusal(cause, reason, warnings)

    def __str__(self) -> str:
        return self.refusal.reason
