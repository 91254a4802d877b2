"""The state that the parts of one take-over attempt share, and how an attempt ends."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import Listing
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.error_codes import name_of
from bellwether_kafka.coordinator.membership.events import JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Requests
from bellwether_kafka.coordinator.membership.takeover.own_joins import OwnJoins, PendingIds
from bellwether_kafka.coordinator.membership.transitions import Position, Step

POLL_S = 0.02
COOPERATIVE = "cooperative-sticky"  # its members go on working while a rebalance is open


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


@dataclass(slots=True)
class TakeoverState:
    """Times are in seconds of the caller's clock. `evictions`: how many members may still be removed."""

    requests: Requests
    config: MembershipConfig
    position: Position[Step]
    listing: Listing
    joins: OwnJoins
    pending: PendingIds
    evictions: int
    now: float = 0.0
    limit: float = 0.0  # the end of the step under way
    due: float | None = None
    alive_at: float = 0.0  # when the broker last heard from Bellwether
    parked_at: float = 0.0
    opens_next: bool = False  # the opener has been sent
    next_is_open: bool = False  # the second rebalance waits for Bellwether

    @property
    def step(self) -> Step:
        return self.position.state

    @property
    def reopens(self) -> bool:
        """True if a second rebalance is opened before the first is assigned. The group's protocol is the first that
        Bellwether offers."""
        return bool(self.evictions) and self.requests.protocols[0] == COOPERATIVE

    def go(self, step: Step) -> None:
        self.position.go(step)

    def limit_ms(self, limit_ms: float) -> None:
        self.limit = self.now + limit_ms / 1000

    def describe_later(self) -> None:
        self.due = self.now + POLL_S


def refused(request: str, code: int) -> Failed:
    return Failed(f"{request} was answered with {name_of(code)}", code)
