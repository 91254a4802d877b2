"""The results of a planner: a decision that may be sent or one for comparison, and how it was made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bellwether_kafka.assignors.shared import ClusterView, Decision, GroupPlan, IntArray, Rule
from bellwether_kafka.coordinator.planning.causes import Cause, CauseKind
from bellwether_kafka.coordinator.planning.fallback import Chosen

UNDELIVERED = Cause(CauseKind.AGAIN, "not delivered yet")

P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on one decision. `joined_at` is monotonic: when the JoinGroup answer arrived. `join_s` (from
    Bellwether's JoinGroup to its answer) and `sync_s` are known once the broker has the plan."""

    joined_at: float
    metadata_s: float
    plan_s: float
    sync_s: float = 0.0
    join_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WatchedTopics:
    """The topics whose changes matter to a group.

    `subscribed`: those that members subscribe to. `kept`: topics without a subscription whose loss matters.
    `rack_aware`: a member has a rack, so the racks of replicas matter. `objection`: returns why a rebalance with the
    topics as they are in the given view would do more harm than good, "" for no reason.
    """

    subscribed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    rack_aware: bool = False
    objection: Callable[[ClusterView], str] | None = None


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class PlannedRebalance(Generic[P_co]):
    """A decision that may be sent, and how it was made.

    `rules` are the orders on placement that it carries out, `ordered` the sentences of orders that are new in it.
    `wanted` is why Bellwether itself requested the rebalance, "" if it did not.
    `previous` is the decision delivered to the group before, and `cause` what has changed since; both are known once
    the broker has this decision. `inputs`: the complete input of the decision, if it can be recorded.
    """

    chosen: Chosen[P_co]
    topics: WatchedTopics
    timings: Timings
    previous: Decision[P_co] | None = None
    cause: Cause = UNDELIVERED
    inputs: object = None
    rules: tuple[Rule, ...] = ()
    ordered: tuple[str, ...] = ()
    wanted: str = ""


@dataclass(frozen=True, eq=False)
class Compared(Generic[P_co]):
    """Whether a plan made now would be worth a rebalance: `reason` says why, "" if not. `present` are the owners of all
    items as the broker shows them. `assigned_sizes`: the partition count of each topic that the members' assignments
    imply, also of topics that no longer exist. `inputs`: the input of the decision, if it can be recorded. Changes in a
    stable group that Bellwether goes on leading are compared with this."""

    decision: Decision[P_co]
    reason: str
    topics: WatchedTopics
    present: IntArray
    assigned_sizes: Mapping[str, int]
    inputs: object = None
