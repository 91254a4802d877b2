"""Members of Bellwether's own that make the broker's table of members grow, and leave before the rebalance ends.

They reserve their ids while the group is at rest, which no member notices, each on the connection on which its
JoinGroup is parked later. So the rebalance is open for them only as long as the broker needs to take them in.
"""

from collections.abc import Iterable

from bellwether_kafka.coordinator.membership.errors import Code
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind, Requests

REASON = "make the table of members grow"


class TemporaryMembers:
    """`reserve`, then `join`, then `leave`. `refused` is the broker's first error code against one of them."""

    def __init__(self, requests: Requests, metadata: bytes, wanted: int) -> None:
        self.wanted = wanted
        self.refused: int = Code.NONE
        self.ids: list[str] = []  # that the broker may wait for, or has as members
        self._requests = requests
        self._metadata = metadata

    @property
    def reserved(self) -> bool:
        return len(self.ids) == self.wanted

    def reserve(self) -> None:
        for number in range(self.wanted):
            self._requests.join_temporary(self._metadata, REASON, "", number)

    def answered(self, answer: JoinAnswer) -> None:
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self.ids.append(answer.member_id)
        else:
            self.refused = self.refused or answer.error

    def join(self) -> None:
        for number, member_id in enumerate(self.ids):
            self._requests.join_temporary(self._metadata, REASON, member_id, number)

    def are_in(self, members: Iterable[DescribedMember]) -> bool:
        return {*self.ids} <= {member.member_id for member in members}

    def others(self, members: Iterable[DescribedMember]) -> tuple[DescribedMember, ...]:
        """The members without these."""
        return tuple(member for member in members if member.member_id not in self.ids)

    def leave(self) -> None:
        self._requests.evict(tuple(self.ids), "the table of members has grown", kind=Kind.SHRINK)

    def left(self) -> None:
        self.ids.clear()
        self._requests.abandon(Kind.TEMPORARY)
