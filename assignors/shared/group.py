"""A group as the broker shows it to its leader: member ids and bytes, nothing decoded yet."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawMember:
    """A member as the JoinGroup answer has it."""

    member_id: str
    instance_id: str | None
    metadata: bytes

    @property
    def key(self) -> str:
        return self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class RawGroup:
    """A JoinGroup answer to the leader. `own_member_ids` are the instance's own members, never part of a view. Of a
    `resting` group nobody has joined again: what memory says that members hold is newer than what they said."""

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
    """A member of a stable group as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    metadata: bytes
    assignment: bytes
