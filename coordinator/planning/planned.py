"""What a planner hands over: a decision that may be sent, or one that is not acted on, and how it came about."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bellwether_kafka.assignors.shared import ClusterView, Decision, GroupPlan, IntArray, Rule
from bellwether_kafka.coordinator.planning.causes import Cause, CauseKind
from bellwether_kafka.coordinator.planning.fallback import Chosen

UNDELIVERED = Cause(CauseKind.AGAIN, "not delivered yet")

P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on one decision. `joined_at` is monotonic: when the JoinGroup answer was here. `join_s` (from
    Bellwether's JoinGroup to its answer) and `sync_s` are known once the broker has the plan."""

    joined_at: float
    metadata_s: float
    plan_s: float
    sync_s: float = 0.0
    join_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WatchedTopics:
    """The topics whose changes matter to a group. `subscribed` are those that members subscribe to; `kept` are topics
    whose loss matters though nobody subscribes to them. `rack_aware`: some member named a rack, so racks of replicas
    matter. `objection` says what stands against a rebalance for the sake of other topics than these, "" for nothing.
    """

    subscribed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    rack_aware: bool = False
    objection: Callable[[ClusterView], str] | None = None


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class PlannedRebalance(Generic[P_co]):
    """A decision that may be sent, and how it came about.

    `rules` are the orders on placement that it carries out, `ordered` the sentences of orders that are new with it.
    `previous` is what was delivered to the group before, and `cause` what has changed since: both are known once the
    broker has the decision. `inputs`: all that the decision was made from, where that can be recorded.
    """

    chosen: Chosen[P_co]
    topics: WatchedTopics
    timings: Timings
    previous: Decision[P_co] | None = None
    cause: Cause = UNDELIVERED
    inputs: object = None
    rules: tuple[Rule, ...] = ()
    ordered: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Compared(Generic[P_co]):
    """Would a plan made now be worth a rebalance? `reason` says why, "" if not. `held` has the owners of all items as
    the broker shows them, `inputs` what the decision was made from, where that can be recorded. A group at rest that is
    led on is followed from here."""

    decision: Decision[P_co]
    reason: str
    topics: WatchedTopics
    held: IntArray
    inputs: object = None
