"""Bellwether's own JoinGroups during a take-over, their pending ids, and temporary members."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.error_codes import Code
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind, Requests

LANES = (Kind.JOIN, Kind.JOIN_AGAIN)
REASON = "take the lead"
NO_MEMBER = "bellwether-measures-the-pace"
GROWTH_REASON = "make the table of members grow"


@dataclass(slots=True)
class PendingIds:
    """Bellwether's ids that the broker may still wait for, "" for none."""

    unfit: list[str] = field(default_factory=list)  # ids that do not sort first
    blocker: str = ""  # holds the rebalance open
    released: str = ""  # a blocker whose LeaveGroup has not been answered
    opener: str = ""  # joins the rebalance, and opens the next one by leaving

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.unfit, *(own for own in (self.blocker, self.released, self.opener) if own))

    def keep_spare(self) -> None:
        """Takes the opener and the blocker from the unfit ids, because they need not sort first."""
        self.opener = self.unfit.pop() if self.unfit else ""
        self.blocker = self.unfit.pop() if self.unfit else ""

    def reserved(self, member_id: str) -> None:
        if self.blocker:
            self.opener = member_id
        else:
            self.blocker = member_id

    def choose_opener(self) -> str:
        """Returns the opener. A single id becomes the opener: the rebalance may then end between its two requests,
        which gives its leader time to plan."""
        if not self.opener:
            self.opener, self.blocker = self.blocker, ""
        return self.opener


class OwnJoins:
    """The JoinGroups of an attempt. One may have to be sent while another is parked, so they use two connections."""

    def __init__(self, requests: Requests, metadata: bytes) -> None:
        self.tries = 0  # ids that have been requested
        self._requests = requests
        self._metadata = metadata
        self._lane = 0
        self._changed = 0

    def is_current(self, kind: Kind) -> bool:
        return kind is LANES[self._lane]

    def ask(self) -> None:
        """Requests a member id. The broker forgets it unless Bellwether joins with it."""
        self.tries += 1
        self._requests.join(self._metadata, REASON, member_id="", static=False)

    def ask_for_pace(self) -> None:
        """Joins under an id that no broker has given, to see how long the refusal takes: that leaves nothing behind,
        while giving an id back begins a rebalance (4.3)."""
        self._requests.join(self._metadata, REASON, member_id=NO_MEMBER, static=False)

    def reserve(self) -> None:
        """Requests an id for the blocker or the opener."""
        self._requests.join(self._metadata, REASON, kind=Kind.BLOCKER, member_id="", static=False)

    def park(self) -> None:
        self._requests.join(self._metadata, REASON)

    def park_unnamed(self) -> None:
        """Joins under the instance id. The broker creates a member id, which DescribeGroups shows."""
        self.tries += 1
        self._requests.join(self._metadata, REASON, member_id="")

    def replace(self) -> None:
        """Joins again under the same instance id, to get another member id."""
        self.tries += 1
        self._lane = 1 - self._lane
        self._requests.join(self._metadata, REASON, kind=LANES[self._lane], member_id="")

    def come_back(self, *, changed: bool = False) -> None:
        """Joins the next rebalance. `changed`: with one more protocol name, which no member uses, to open a
        rebalance."""
        self.forget()
        self._lane = 0
        self._changed += changed
        self._requests.join(self._metadata, REASON, besides=(f"{REASON} {self._changed}",) if changed else ())

    def open_next(self, opener: str) -> None:
        lane = 1 - self._lane
        self._requests.join(self._metadata, REASON, kind=Kind.BLOCKER, member_id=opener, static=False, lane=lane)
        self._requests.evict((opener,), "the next rebalance may begin", kind=Kind.OPEN, lane=lane)

    def forget(self) -> None:
        """Abandons JoinGroups that are still parked under replaced ids."""
        self._requests.abandon(*LANES)


class TemporaryMembers:
    """Members that make the broker's table grow and leave before the rebalance ends. They reserve their ids while the
    group is stable, which no member notices, each on the connection on which its JoinGroup is parked later. So the
    rebalance stays open for them only as long as the broker needs to admit them.

    Call `reserve`, then `join`, then `leave`. `refused` is the broker's first error code against one of them.
    """

    def __init__(self, requests: Requests, metadata: bytes, wanted: int) -> None:
        self.wanted = wanted
        self.refused: int = Code.NONE
        self.ids: list[str] = []  # ids that the broker may wait for or has as members
        self._requests = requests
        self._metadata = metadata

    @property
    def reserved(self) -> bool:
        return len(self.ids) == self.wanted

    def reserve(self) -> None:
        for number in range(self.wanted):
            self._requests.join_temporary(self._metadata, GROWTH_REASON, "", number)

    def answered(self, answer: JoinAnswer) -> None:
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self.ids.append(answer.member_id)
        else:
            self.refused = self.refused or answer.error

    def join(self) -> None:
        for number, member_id in enumerate(self.ids):
            self._requests.join_temporary(self._metadata, GROWTH_REASON, member_id, number)

    def are_in(self, members: Iterable[DescribedMember]) -> bool:
        return {*self.ids} <= {member.member_id for member in members}

    def others(self, members: Iterable[DescribedMember]) -> tuple[DescribedMember, ...]:
        """Returns the members without the temporary ones."""
        return tuple(member for member in members if member.member_id not in self.ids)

    def leave(self) -> None:
        self._requests.evict(tuple(self.ids), "the table of members has grown", kind=Kind.SHRINK)

    def left(self) -> None:
        self.ids.clear()
        self._requests.abandon(Kind.TEMPORARY)
