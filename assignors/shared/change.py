"""A change to a group whose effect can be simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, field


class WhatIfError(ValueError):
    """The change names something that the group does not have. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Change:
    """Members that disappear, by id; racks whose members disappear; new members (rack of each, "" for none), copies of
    the first member that is left; topics with the number of partitions that they shall have."""

    without_members: tuple[str, ...] = ()
    without_racks: tuple[str, ...] = ()
    new_members: tuple[str, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
