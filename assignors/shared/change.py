"""A hypothetical change to a group, as input of a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
