"""One attempt to take a group over: the value that all its steps share, and how it ends."""

from dataclasses import dataclass, field
from typing import Any

from bellwether_kafka.coordinator.membership.broker_order import Listing, grown
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.events import JoinAnswer
from bellwether_kafka.coordinator.membership.lead_rules import subscription
from bellwether_kafka.coordinator.membership.requests import Kind, Requests
from bellwether_kafka.coordinator.membership.role import Code, name_of
from bellwether_kafka.coordinator.membership.takeover_policy import TakeoverAttempt
from bellwether_kafka.coordinator.membership.transitions import TAKEOVER, OnEdge, Position, Step

POLL_S = 0.02
COOPERATIVE = "cooperative-sticky"  # its members go on working while a rebalance is open
LANES = (Kind.JOIN, Kind.JOIN_AGAIN)
REASON = "take the lead"
# Steps that no member notices, and those in which Bellwether has no members in the group, except temporary ones.
AT_REST = (Step.PACING, Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING)
NOT_IN_YET = (*AT_REST, Step.GROWING, Step.SHRINKING)
SEARCH = (*NOT_IN_YET, Step.PARKING, Step.REPLACING)  # steps on the way to a member id


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
    """What changes in one attempt. Times are in seconds of the caller's clock. `evictions`: how many members may still
    be removed. Ids are "" for none.

    Two connections are for Bellwether's own JoinGroups, because one may have to be sent while another is parked. Each
    temporary member reserves its id on the connection on which its JoinGroup is parked later. So the rebalance stays
    open for them only as long as the broker needs to admit them.
    """

    plan: TakeoverAttempt
    requests: Requests
    config: MembershipConfig
    position: Position[Step]
    listing: Listing
    metadata: bytes
    evictions: int
    began: float
    now: float
    limit: float = 0.0  # the end of the step under way
    due: float | None = None
    alive_at: float = 0.0  # when the broker last heard from Bellwether
    parked_at: float = 0.0
    # How fast ids can be tried: `paced` tries have been measured, one more before them opens the connection.
    paced: int = -1
    paced_s: float = 0.0
    asked_at: float = 0.0
    answers: int = 0  # to the present try
    # Ids.
    tries: int = 0  # that have been requested
    unfit: list[str] = field(default_factory=list)  # that do not sort first
    try_next_once_replaced: bool = False  # the present one has been seen, and is not good
    blocker: str = ""  # holds the rebalance open
    released: str = ""  # a blocker whose LeaveGroup has not been answered
    opener: str = ""  # joins the rebalance, and opens the next one by leaving
    opens_next: bool = False  # the opener has been sent
    next_is_open: bool = False  # the second rebalance waits for Bellwether
    temporary_ids: list[str] = field(default_factory=list)  # that the broker may wait for or has as members
    temporary_refused: int = Code.NONE  # the broker's first error code against one of them
    # The leader and others to remove.
    leader: str = ""  # the one that the last answer named
    ahead: tuple[str, ...] = ()  # members to remove with the leader
    behind: tuple[str, ...] = ()  # those of them that are removed after the leader
    removed: tuple[str, ...] = ()  # removed last; expected back under other ids
    evicted: tuple[str, ...] = ()  # all members removed so far
    lane: int = 0
    changed: int = 0  # how often a rebalance has been opened by other protocols

    @classmethod
    def of(cls, plan: TakeoverAttempt, requests: Requests, on_edge: OnEdge, now: float) -> "Attempt":
        config = requests.config
        after = grown(plan.tables, len(plan.listing) + plan.temporary) if plan.temporary else plan.tables
        listing = Listing(plan.listing, after, config.instance_id)
        begins = Step.GATHERING if plan.temporary else first_step(config)
        if config.instance_id is not None and plan.foreseen is not None:
            begins = Step.PACING
        position, metadata = Position(TAKEOVER, begins, on_edge), subscription(config.topics, streams=config.streams)
        return cls(plan, requests, config, position, listing, metadata, plan.evictions, now, now)

    @property
    def step(self) -> Step:
        return self.position.state

    @property
    def in_front(self) -> str:
        """Bellwether's id while it is parked and sorts first; "" otherwise."""
        return self.listing.own if self.step is Step.PARKED else ""

    @property
    def disturbs(self) -> bool:
        """True if members have noticed the attempt or are about to."""
        return self.step not in AT_REST

    @property
    def searches(self) -> bool:
        """True until Bellwether has the member id under which it waits for the lead."""
        return self.step in SEARCH

    @property
    def joined(self) -> bool:
        """True if the broker may have a member of Bellwether's, even one whose id Bellwether does not know."""
        return self.step not in NOT_IN_YET

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
        return len(self.listing.members) + self.plan.temporary if full else None

    def go(self, step: Step) -> None:
        self.position.go(step)

    def limit_ms(self, limit_ms: float) -> None:
        self.limit = self.now + limit_ms / 1000

    def describe_later(self) -> None:
        self.due = self.now + POLL_S

    def join(self, **how: Any) -> None:
        """Sends JoinGroup: by default as Bellwether's own member, see `Requests.join`."""
        self.requests.join(self.metadata, REASON, **how)

    def request_id(self) -> None:
        """Requests a member id. The broker forgets it unless Bellwether joins with it."""
        self.tries += 1
        self.join(member_id="", static=False)

    def join_unnamed(self) -> None:
        """Joins under the instance id. The broker creates a member id, which DescribeGroups shows."""
        self.tries += 1
        self.join(kind=LANES[self.lane], member_id="")

    def reserve(self) -> None:
        """Requests an id for the blocker or the opener."""
        self.join(kind=Kind.BLOCKER, member_id="", static=False)

    def come_back(self, *, changed: bool = False) -> None:
        """Joins the next rebalance. `changed`: with one more protocol name, which no member uses, to open a
        rebalance."""
        self.forget()
        self.lane = 0
        self.changed += changed
        self.join(besides=(f"{REASON} {self.changed}",) if changed else ())

    def forget(self) -> None:
        """Abandons JoinGroups that are still parked under replaced ids."""
        self.requests.abandon(*LANES)


def first_step(config: MembershipConfig) -> Step:
    """Returns the step in which the search for an id begins."""
    return Step.ROLLING if config.instance_id is None else Step.BARRING
