"""What a planner must know of a kind of group. There are two, consumers and Streams applications; stateful members
are an application that `Dialect` translates."""

from collections.abc import Callable, Sequence
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
    """A plan to be made outside of the event loop: in a thread by `make`, or by `job` in the solver's process, None
    where that process lacks something. `record` is what a recorded rebalance keeps, None where it keeps nothing.
    Nothing in it may change meanwhile."""

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
        """`portable`: the solver's process was started with this very subject."""
        return Work(partial(make, subject, request), Job(make, request) if portable else None, record)


class PlanInputs(Protocol[P_co]):
    """What one decision is made from, read anew for each rebalance: a frozen value."""

    @property
    def raw(self) -> RawGroup: ...
    @property
    def cluster(self) -> ClusterView: ...
    def work(self, source: Source, rules: tuple[Rule, ...], message_bytes_max: int, *, dry: bool = False) -> Work[P_co]:
        """The configured policy's plan, or the cheap one, under these rules. A `dry` plan is only compared with."""


class GroupKind(Protocol[P]):
    """One group's, with what is remembered of it: what its members hold, as far as Bellwether knows. For one event
    loop."""

    @property
    def policy(self) -> str:
        """By its configured name."""

    @property
    def rules_refused(self) -> str:
        """Why plans cannot carry out orders on placement, "" where they can."""

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> PlanInputs[P]:
        """Raises RefusalError where no plan of any kind would do; whatever else it raises leaves the previous plan."""

    def topics(self, decision: Decision[P]) -> WatchedTopics: ...
    def held(self, decision: Decision[P]) -> IntArray:
        """The owners of all items as far as the broker shows them."""

    def worth_moving(self, decision: Decision[P]) -> str:
        """Why the plan is worth a rebalance after a quiet return of Bellwether's, "" if what members hold will do."""

    def differs(self, decision: Decision[P], former: Decision[P], rules: tuple[Rule, ...]) -> bool:
        """Whether a rebalance under `rules` would change anything: `decision` is the plan under them, `former` the one
        under the rules before. Both are dry."""

    def delivered(self, proposal: Proposal[P]) -> None:
        """The broker has this plan: remember it."""

    def forget(self) -> None: ...
    def distrust(self) -> None:
        """Members could not work by the last plan: what it was made from counts again when a member's lead confirms
        it."""

    @property
    def digest(self) -> str:
        """Of what an operator has given to plan by, "" for nothing."""

    async def learn(self, members: tuple[AssignedMember, ...]) -> bool:
        """Reads a group at rest that a member leads. Returns whether memory of it is of use."""

    async def recall(
        self, generation: int, protocol: str, members: Sequence[AssignedMember], current: Callable[[], bool]
    ) -> bool:
        """Reads what members hold, and remembers it if it is `current` then. Returns whether it was. Where it raises
        anything, memory stays as it was."""


class Dialect(Generic[P]):
    """Between the bytes of members and those that a kind of group understands: here they are the same."""

    async def joined(self, command: Decide, limit_s: float) -> Decide:  # noqa: ARG002 - the interface of all dialects
        return command

    async def described(self, group: ShownGroup) -> ShownGroup:
        return group

    async def answered(self, decision: Decision[P]) -> Decision[P]:
        """The decision with the bytes that members get. Raises RefusalError."""
        return decision
