"""A group as the broker presents it to its leader: member ids and undecoded bytes."""

from collections.abc import Sequence
from dataclasses import dataclass


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
