"""The subscriptions and assignments in a DescribeGroups answer, as a type that no error answer can be converted to."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.error_codes import name_of
from bellwether_kafka.coordinator.membership.events import (
    REBALANCING,
    DescribeAnswer,
    DescribedMember,
    GroupState,
)


class NotShownError(Exception):
    """Raised if the answer does not include subscriptions and assignments; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """What the members of a group subscribe to and own. Created by `shown` only."""

    state: str
    protocol: str
    members: tuple[DescribedMember, ...]


def shown(answer: DescribeAnswer) -> ShownGroup:
    """Returns the group that the answer describes. Raises NotShownError for an error, and for a state in which brokers
    leave subscriptions and assignments out."""
    if answer.error:
        raise NotShownError(f"DescribeGroups was answered with {name_of(answer.error)}")
    if answer.state in {*REBALANCING, GroupState.DEAD, ""}:
        raise NotShownError(f"what members have is shown when the group is Stable; it is {answer.state or 'unknown'}")
    return ShownGroup(answer.state, answer.protocol, answer.members)
