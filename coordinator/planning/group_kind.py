"""What a planner must know of a kind of group. There are two, consumers and Streams applications; stateful members
are an application that `Dialect` translates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from bellwether_kafka.assignors.shared import AssignedMember, Decision, GroupPlan, IntArray, RawGroup, Rule
from bellwether_kafka.coordinator.membership import Decide, ShownGroup
from bellwether_kafka.coordinator.planning.fallback import Source
from bellwether_kafka.coordinator.planning.planned import WatchedTopics
from bellwether_kafka.coordinator.planning.streams_config import Arrivals

METADATA_AGE_MS_MAX = 1_000

P = TypeVar("P", bound=GroupPlan)
P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)

SecondsLeft = Callable[[], float]


@dataclass(frozen=True)
class Proposal(Generic[P_co]):
    """A decision, what the guard found wrong with it, and the arrivals of processes to remember if it is sent."""

    decision: Decision[P_co]
    findings: tuple[str, ...]
    arrivals: Arrivals | None = None


@dataclass(frozen=True)
class Work(Generic[P_co]):
    """A plan to be made in a thread, by `make(subject, *arguments)`; or in the solver's process, which has the subject
    already, where that is `portable`. Nothing in it may change meanwhile."""

    make: Callable[..., Proposal[P_co]]
    subject: object
    arguments: tuple[Any, ...]
    portable: bool = False


class GroupKind(Protocol[P]):
    """One group's, with what is remembered of it. For one event loop. `inputs` are what one decision is made from, read
    anew for each rebalance: `raw`, `cluster` and what else the kind needs; `memory` is what members hold, if known."""

    memory: Any
    rules: tuple[Rule, ...]  # the operator's word on placement, for every plan from now on

    @property
    def policy(self) -> str:
        """By its configured name."""

    @property
    def rules_refused(self) -> str:
        """Why plans cannot carry out orders on placement, "" where they can."""

    def rule(self, rules: tuple[Rule, ...]) -> None: ...

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> Any:
        """Raises RefusalError where no plan of any kind would do; whatever else it raises leaves the previous plan."""

    def work(self, inputs: Any, source: Source, message_bytes_max: int, *, dry: bool = False) -> Work[P]:
        """The configured policy's plan, or the cheap one. Nobody acts on a `dry` plan."""

    def proposed(self, proposal: Proposal[P]) -> None:
        """Takes note of a plan that was made and may be sent."""

    def topics(self, inputs: Any, decision: Decision[P]) -> WatchedTopics: ...
    def recordable(self, inputs: Any) -> object:
        """What the configured policy's last plan from these was made from, where that can be recorded."""

    def held(self, decision: Decision[P]) -> IntArray:
        """The owners of all items as far as the broker shows them."""

    def worth_moving(self, decision: Decision[P]) -> str:
        """Why the plan is worth a rebalance after a quiet return of Bellwether's, "" if what members hold will do."""

    def differs(self, decision: Decision[P], former: Decision[P]) -> bool:
        """Whether a rebalance would change anything. `former` is the plan under the rules that stood before, both
        dry."""

    def delivered(self, decision: Decision[P]) -> None:
        """The broker has this plan: remember it."""

    def forget(self) -> None: ...
    def doubt(self) -> None:
        """Members could not work by the last plan: what it was made from counts again when a member's lead confirms
        it."""

    @property
    def digest(self) -> str:
        """Of what an operator has given to plan by, "" for nothing."""

    async def learn(self, members: tuple[AssignedMember, ...]) -> bool:
        """Reads a group at rest that a member leads. Returns whether memory of it is of use."""

    async def recall(self, generation: int, protocol: str, members: Sequence[AssignedMember]) -> Any:
        """What members hold, as `memory`."""


class Dialect(Generic[P]):
    """Between the bytes of members and those that a kind of group understands: here they are the same."""

    async def joined(self, command: Decide, limit_s: float) -> Decide:  # noqa: ARG002 - the interface of all dialects
        return command

    async def described(self, group: ShownGroup) -> ShownGroup:
        return group

    async def answered(self, decision: Decision[P]) -> Decision[P]:
        """The decision with the bytes that members get. Raises RefusalError."""
        return decision
