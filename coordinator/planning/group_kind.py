"""The interface of a kind of group to the planner. There are two kinds, consumers and Streams applications; a group of
stateful members is planned as an application after a `Dialect` has translated its messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Decision, GroupPlan, IntArray, RawGroup, Rule
from bellwether_kafka.coordinator.membership import Decide, ShownGroup
from bellwether_kafka.coordinator.planning.fallback import Proposal, Source
from bellwether_kafka.coordinator.planning.planned import WatchedTopics
from bellwether_kafka.coordinator.planning.solver_worker import Job

METADATA_AGE_MS_MAX = 1_000

P = TypeVar("P", bound=GroupPlan)
P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)
Subject = TypeVar("Subject")
Request = TypeVar("Request")

SecondsLeft = Callable[[], float]


@dataclass(frozen=True)  # slots break a frozen generic that is made by its alias (Python 3.11)
class Work(Generic[P_co]):
    """A plan to be made outside of the event loop. `make` runs in a thread; `job` runs in the solver's process, None if
    that process lacks something. `record` is the input for a recorded rebalance, None for none. The contents must not
    change meanwhile."""

    make: Callable[[], Proposal[P_co]]
    job: Job[Proposal[P_co]] | None = None
    record: object = None

    @classmethod
    def of(
        cls,
        make: Callable[[Subject, Request], Proposal[P_co]],
        subject: Subject,
        request: Request,
        *,
        portable: bool = False,
        record: object = None,
    ) -> "Work[P_co]":
        """Creates the work. `portable`: the solver's process was started with this subject."""
        return Work(partial(make, subject, request), Job(make, request) if portable else None, record)


class PlanInputs(Protocol[P_co]):
    """The input of one decision, read anew for each rebalance; immutable."""

    @property
    def raw(self) -> RawGroup: ...
    @property
    def cluster(self) -> ClusterView: ...
    def work(self, source: Source, rules: tuple[Rule, ...], message_bytes_max: int, *, dry: bool = False) -> Work[P_co]:
        """Returns the work for the configured policy's plan or the cheap plan, under these rules. A `dry` plan is only
        used for comparison."""


class GroupKind(Protocol[P]):
    """One group, with a memory of what its members own, as far as Bellwether knows. For one event loop."""

    @property
    def policy(self) -> str:
        """The configured name of the policy."""

    def uses_racks(self, protocol: str) -> bool:
        """Returns whether plans for members with this protocol depend on their racks."""

    @property
    def rules_refused(self) -> str:
        """Why plans cannot carry out orders on placement, "" if they can."""

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> PlanInputs[P]:
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

    def delivered(self, proposal: Proposal[P]) -> None:
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
