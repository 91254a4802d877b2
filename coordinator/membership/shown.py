"""What DescribeGroups shows of a group: a value that no error answer can become, so nothing is concluded from one."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.errors import name_of
from bellwether_kafka.coordinator.membership.events import (
    REBALANCING,
    DescribeAnswer,
    DescribedMember,
    GroupState,
)


class NotShownError(Exception):
    """The answer does not show what members subscribe to and have; the message says why."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """What the members of a group subscribe to and have. Only `shown` makes it of an answer."""

    state: str
    protocol: str
    members: tuple[DescribedMember, ...]


def shown(answer: DescribeAnswer) -> ShownGroup:
    """Raises NotShownError for an error, and for a group whose broker leaves subscriptions and assignments out."""
    if answer.error:
        raise NotShownError(f"DescribeGroups was answered with {name_of(answer.error)}")
    if answer.state in {*REBALANCING, GroupState.DEAD, ""}:
        raise NotShownError(f"what members have is shown when the group is Stable; it is {answer.state or 'unknown'}")
    return ShownGroup(answer.state, answer.protocol, answer.members)
