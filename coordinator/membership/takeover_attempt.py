"""One attempt to take a group over: what it knows, Bellwether's ids and JoinGroups in it, and how it ends.

Everything of an attempt that changes is here, but for what only one of its parts uses: `takeover_search` gets a member
id, `takeover` removes the leader.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.broker_order import Listing
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind, Requests
from bellwether_kafka.coordinator.membership.role import Code, name_of
from bellwether_kafka.coordinator.membership.transitions import Position, Step

POLL_S = 0.02
COOPERATIVE = "cooperative-sticky"  # its members go on working while a rebalance is open
LANES = (Kind.JOIN, Kind.JOIN_AGAIN)
REASON = "take the lead"
NO_MEMBER = "bellwether-measures-the-pace"
GROWTH_REASON = "make the table of members grow"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The answer that names Bellwether as leader."""

    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `code` is the broker's error code if it gave one, else 0."""

    reason: str
    code: int = 0


Outcome = TakenOver | Failed | None


def refused(request: str, code: int) -> Failed:
    return Failed(f"{request} was answered with {name_of(code)}", code)


@dataclass(slots=True)
class Attempt:
    """The state of one attempt. Times are in seconds of the caller's clock. `evictions`: how many members may still be
    removed. `temporary`: how many temporary members make the broker's table grow. Ids are "" for none.

    Two connections are for Bellwether's own JoinGroups, because one may have to be sent while another is parked. Each
    temporary member reserves its id on the connection on which its JoinGroup is parked later. So the rebalance stays
    open for them only as long as the broker needs to admit them.
    """

    requests: Requests
    config: MembershipConfig
    position: Position[Step]
    listing: Listing
    metadata: bytes
    evictions: int
    temporary: int
    now: float = 0.0
    limit: float = 0.0  # the end of the step under way
    due: float | None = None
    alive_at: float = 0.0  # when the broker last heard from Bellwether
    parked_at: float = 0.0
    opens_next: bool = False  # the opener has been sent
    next_is_open: bool = False  # the second rebalance waits for Bellwether
    tries: int = 0  # ids that have been requested
    unfit: list[str] = field(default_factory=list)  # ids that do not sort first
    blocker: str = ""  # holds the rebalance open
    released: str = ""  # a blocker whose LeaveGroup has not been answered
    opener: str = ""  # joins the rebalance, and opens the next one by leaving
    temporary_ids: list[str] = field(default_factory=list)  # that the broker may wait for or has as members
    temporary_refused: int = Code.NONE  # the broker's first error code against one of them
    _lane: int = 0
    _changed: int = 0

    @property
    def step(self) -> Step:
        return self.position.state

    @property
    def reopens(self) -> bool:
        """True if a second rebalance is opened before the first is assigned. The group's protocol is the first that
        Bellwether offers."""
        return bool(self.evictions) and self.requests.protocols[0] == COOPERATIVE

    @property
    def ids_to_give_back(self) -> tuple[str, ...]:
        """Ids of Bellwether's that the broker may still wait for."""
        pending = (own for own in (self.blocker, self.released, self.opener) if own)
        return (*self.unfit, *pending, *self.temporary_ids)

    @property
    def room(self) -> int | None:
        """A number of members that the broker refused; None if it has refused none."""
        full = self.temporary_refused == Code.GROUP_MAX_SIZE_REACHED
        return len(self.listing.members) + self.temporary if full else None

    def go(self, step: Step) -> None:
        self.position.go(step)

    def limit_ms(self, limit_ms: float) -> None:
        self.limit = self.now + limit_ms / 1000

    def describe_later(self) -> None:
        self.due = self.now + POLL_S

    # ---- pending ids ------------------------------------------------------------------------------------------------

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

    # ---- Bellwether's JoinGroups -------------------------------------------------------------------------------------

    def is_current(self, kind: Kind) -> bool:
        return kind is LANES[self._lane]

    def ask(self) -> None:
        """Requests a member id. The broker forgets it unless Bellwether joins with it."""
        self.tries += 1
        self.requests.join(self.metadata, REASON, member_id="", static=False)

    def ask_for_pace(self) -> None:
        """Joins under an id that no broker has given, to see how long the refusal takes: that leaves nothing behind,
        while giving an id back begins a rebalance (4.3)."""
        self.requests.join(self.metadata, REASON, member_id=NO_MEMBER, static=False)

    def reserve(self) -> None:
        """Requests an id for the blocker or the opener."""
        self.requests.join(self.metadata, REASON, kind=Kind.BLOCKER, member_id="", static=False)

    def park(self) -> None:
        self.requests.join(self.metadata, REASON)

    def park_unnamed(self) -> None:
        """Joins under the instance id. The broker creates a member id, which DescribeGroups shows."""
        self.tries += 1
        self.requests.join(self.metadata, REASON, member_id="")

    def replace(self) -> None:
        """Joins again under the same instance id, to get another member id."""
        self.tries += 1
        self._lane = 1 - self._lane
        self.requests.join(self.metadata, REASON, kind=LANES[self._lane], member_id="")

    def come_back(self, *, changed: bool = False) -> None:
        """Joins the next rebalance. `changed`: with one more protocol name, which no member uses, to open a
        rebalance."""
        self.forget()
        self._lane = 0
        self._changed += changed
        self.requests.join(self.metadata, REASON, besides=(f"{REASON} {self._changed}",) if changed else ())

    def open_next(self, opener: str) -> None:
        lane = 1 - self._lane
        self.requests.join(self.metadata, REASON, kind=Kind.BLOCKER, member_id=opener, static=False, lane=lane)
        self.requests.evict((opener,), "the next rebalance may begin", kind=Kind.OPEN, lane=lane)

    def forget(self) -> None:
        """Abandons JoinGroups that are still parked under replaced ids."""
        self.requests.abandon(*LANES)

    # ---- temporary members -------------------------------------------------------------------------------------------

    def reserve_temporary(self) -> None:
        """Requests their ids while the group is stable, which no member notices."""
        for number in range(self.temporary):
            self.requests.join_temporary(self.metadata, GROWTH_REASON, "", number)

    def temporary_answered(self, answer: JoinAnswer) -> None:
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self.temporary_ids.append(answer.member_id)
        else:
            self.temporary_refused = self.temporary_refused or answer.error

    def join_temporary(self) -> None:
        for number, member_id in enumerate(self.temporary_ids):
            self.requests.join_temporary(self.metadata, GROWTH_REASON, member_id, number)

    def temporary_are_in(self, members: Iterable[DescribedMember]) -> bool:
        return {*self.temporary_ids} <= {member.member_id for member in members}

    def leave_temporary(self) -> None:
        self.requests.evict(tuple(self.temporary_ids), "the table of members has grown", kind=Kind.SHRINK)

    def temporary_left(self) -> None:
        self.temporary_ids.clear()
        self.requests.abandon(Kind.TEMPORARY)
