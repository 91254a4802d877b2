"""What is planned from, and what comes of it: `Inputs` and `Planned`; and what differs between kinds of group.

There are two kinds, consumers and Streams applications; a group of stateful members is planned as an application after
a `Dialect` has translated its messages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Decision, GroupPlan, IntArray, RawGroup, Rule
from bellwether_kafka.coordinator.membership import Decide, ShownGroup
from bellwether_kafka.coordinator.planning.causes import Cause, CauseKind

METADATA_AGE_MS_MAX = 1_000
UNDELIVERED = Cause(CauseKind.AGAIN, "not delivered yet")

P = TypeVar("P", bound=GroupPlan)
P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)

SecondsLeft = Callable[[], float]


class Source(Enum):
    """Which of the answers was sent."""

    PLAN = "plan"
    CHEAP = "cheaper plan"
    PREVIOUS = "previous plan"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on one decision. `joined_at` is monotonic: when the JoinGroup answer arrived. `join_s` (from
    Bellwether's JoinGroup to its answer) and `sync_s` are known once the broker has the plan."""

    joined_at: float = 0.0
    metadata_s: float = 0.0
    plan_s: float = 0.0
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
class Planned(Generic[P_co]):
    """A decision that may be sent, or one for comparison, and how it was made.

    `source`: which of the answers it is, and `reasons` why earlier attempts were not used. `findings` are the guard's,
    none once it has been checked. `rules` are the orders on placement that it carries out, `ordered` the sentences of
    orders that are new in it. `wanted` is why Bellwether itself requested the rebalance, "" if it did not. `previous`
    is the decision delivered to the group before, and `cause` what has changed since; both are known once the broker
    has this decision. `inputs`: the complete input of the decision, if it can be recorded. `arrivals` of
    processes are what an application remembers once it is delivered; None: nothing new.

    Of a dry plan only: `worth_moving` says why it would be worth a rebalance now, "" if it would not; `present` are the
    owners of all items as the broker shows them; `assigned_sizes` is the partition count of each topic that the
    members' assignments imply, also of topics that no longer exist.
    """

    decision: Decision[P_co]
    topics: WatchedTopics = WatchedTopics(())
    timings: Timings = Timings()
    source: Source = Source.PLAN
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    previous: Decision[P_co] | None = None
    cause: Cause = UNDELIVERED
    inputs: object = None
    rules: tuple[Rule, ...] = ()
    ordered: tuple[str, ...] = ()
    wanted: str = ""
    arrivals: object = None
    worth_moving: str = ""
    present: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    assigned_sizes: Mapping[str, int] = field(default_factory=dict)


class Inputs(Protocol[P_co]):
    """The complete input of one plan, except the policy; read anew for each rebalance, immutable, and picklable."""

    @property
    def raw(self) -> RawGroup: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def record(self) -> object:
        """The input for a recorded rebalance, None for none."""

    def under(
        self, rules: tuple[Rule, ...], message_bytes_max: int, *, cheap: bool = False, dry: bool = False
    ) -> "Inputs[P_co]":
        """Returns the input of a plan under these rules: the configured policy's, or the cheap one. A `dry` plan is
        only used for comparison."""

    def planned(self, policy: Any) -> Planned[P_co]:
        """Returns the plan and the guard's findings. `policy` is `GroupKind.maker`, or the copy of it in the process of
        the solver. Called in a thread or in that process. Raises RefusalError, a final one if no other plan would be
        valid."""


class GroupKind(Protocol[P]):
    """One group, with a memory of what its members own, as far as Bellwether knows. For one event loop."""

    @property
    def policy(self) -> str:
        """The configured name of the policy."""

    @property
    def maker(self) -> object:
        """What makes the plans: the policy or the assignors as configured, without an operator's rules."""

    def uses_racks(self, protocol: str) -> bool:
        """Returns whether plans for members with this protocol depend on their racks."""

    @property
    def rules_refused(self) -> str:
        """Why plans cannot carry out orders on placement, "" if they can."""

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> Inputs[P]:
        """Reads the input of a plan. Raises RefusalError if no plan would be valid; after any other exception the
        previous plan may still be sent."""

    def topics(self, decision: Decision[P]) -> WatchedTopics: ...
    def present_owner(self, decision: Decision[P]) -> IntArray:
        """Returns the owners of all items, as far as the broker shows them."""

    def assigned_sizes(self) -> Mapping[str, int]:
        """Returns the partition count of each topic that the remembered assignments imply."""

    def worth_moving(self, decision: Decision[P]) -> str:
        """Returns why the plan is worth a rebalance after Bellwether returned without one; "" if the present assignment
        is good enough."""

    def differs(self, decision: Decision[P], former: Decision[P], rules: tuple[Rule, ...]) -> bool:
        """Returns whether a rebalance under `rules` would change anything. `decision` is the dry plan under them,
        `former` the dry plan under the previous rules."""

    def delivered(self, planned: Planned[P]) -> None:
        """Remembers this plan, which the broker has accepted."""

    def forget(self) -> None: ...
    def distrust(self) -> None:
        """Distrusts the input of the last plan, by which members could not work, until a member's lead confirms it."""

    @property
    def digest(self) -> str:
        """The digest of the operator's input to plans, "" for none."""

    async def learn(self, members: tuple[AssignedMember, ...]) -> bool:
        """Learns from a stable group that a member leads. Returns whether a memory of it is useful."""

    async def recall(
        self, generation: int, protocol: str, members: Sequence[AssignedMember], current: Callable[[], bool]
    ) -> None:
        """Decodes what members own, and remembers it if `current()` is still true then. If this raises an exception,
        the memory is unchanged."""


class Dialect(Generic[P]):
    """Translates between the members' messages and those of a kind of group. This one changes nothing."""

    async def joined(self, command: Decide, limit_s: float) -> Decide:  # noqa: ARG002 - the interface of all dialects
        return command

    async def described(self, group: ShownGroup) -> ShownGroup:
        return group

    async def answered(self, decision: Decision[P]) -> Decision[P]:
        """Returns the decision with the bytes that members receive. Raises RefusalError."""
        return decision
