"""A group as the broker presents it to its leader: member ids and undecoded bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawMember:
    """A member in the JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes

    @property
    def key(self) -> str:
        return self.instance_id or self.member_id


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
