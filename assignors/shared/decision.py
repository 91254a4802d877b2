"""The result of a decided rebalance, for all kinds of groups: one frozen value from which logs, metrics, events, pages
and explanations are derived. What differs by kind is behind `GroupPlan`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared.dense_views import NOBODY, BoolArray, ClusterView, IntArray, LongArray
from bellwether_kafka.assignors.shared.group import RawGroup
from bellwether_kafka.assignors.shared.rules import Rule
from bellwether_kafka.protocol.primitives import ProcessId, TaskId

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StageReport:
    """The report of one stage: its own score before and after, whether its plan was taken, and why in one sentence.

    `owner` holds all owners after the stage, so that `explain` can name the stage that moved an item. `took_s` is its
    duration in seconds, 0.0 without a clock. `orders` are the operators' orders behind it, "" for none. `basis` is what
    its weights are made of, "" if it uses none. `released` marks the items that the stage took from their owners before
    the stages before it placed them, None for none.
    """

    stage: str
    hard: bool
    before: float
    after: float
    taken: bool
    reason: str
    owner: IntArray | None = field(default=None, compare=False, repr=False)
    took_s: float = field(default=0.0, compare=False, repr=False)
    orders: str = ""
    basis: str = ""
    released: BoolArray | None = field(default=None, compare=False, repr=False)


def no_clock() -> float:
    """Returns 0.0 always, so that all durations are 0.0."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Words:
    """The names for the things of one kind of group. `owner_before_name` has the words to put before one owner's
    name and before several names. `name_chars` is how many characters of a name suffice to distinguish owners (None:
    all)."""

    kind: str
    item: str
    owner: str
    owners: str
    owner_before_name: tuple[str, str] = ("", "")
    name_chars: int | None = None

    def items(self, number: int) -> str:
        return f"{number} {self.item}" if number == 1 else f"{number} {self.item}s"


@dataclass(frozen=True, slots=True)
class Owner:
    """A member of a consumer group, or a process of a Streams application. `members` are the member ids that belong to
    it, for a process those of its threads. `topics` is a consumer's subscription. `degraded` is why its bytes could not
    be used, if so. `leader_only`: its rack comes from the configuration, and it fetches from leaders only."""

    name: str
    rack: str | None
    members: tuple[str, ...]
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    degraded: str | None = None
    leader_only: bool = False

    @property
    def key(self) -> str:
        """The instance id, which survives a restart, else the name."""
        return self.instance_id or self.name


@dataclass(frozen=True, slots=True)
class CopyLag:
    """A standby or warm-up copy and its lag. `lag` is in records, UNKNOWN_OFFSET_SUM if nothing is known. `age_ms` is
    the age of the report, None if the process reported nothing (it then restores everything)."""

    task: TaskId
    process_id: ProcessId
    warmup: bool
    lag: int
    age_ms: int | None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a plan; lower is better. `unowned` counts partitions or tasks without an owner. `spread` is the
    largest minus the smallest count per member or process. `cross_rack` counts partitions without a replica in their
    owner's rack, or without the leader, for an owner that fetches from leaders only."""

    unowned: int
    cross_rack: int
    spread: int


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions counted by what happens to them between two plans: `new` had no owner before, `lost` has none after.

    A pending partition counts as moved in the rebalance that plans the move, and as kept in the one that carries it
    out.
    """

    kept: int
    moved: int
    new: int
    lost: int


def moves(before: IntArray, after: IntArray) -> Moves:
    """Compares two owner arrays in the same coordinates."""
    had, has = before != NOBODY, after != NOBODY
    kept = int((had & (before == after)).sum())
    both = int((had & has).sum())
    return Moves(kept=kept, moved=both - kept, new=int(has.sum()) - both, lost=int(had.sum()) - both)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One owner that could have an item. `chosen` marks the plan's own owner. `verdict` is a sentence.

    `item_count` is how many items it has in the plan. `cross_rack` is how many more (or fewer) partitions would be read
    from another rack, `spread` the resulting spread.
    """

    owner: str
    rack: str | None
    item_count: int
    allowed: bool
    chosen: bool
    cross_rack: int
    spread: int
    verdict: str


class UnknownItemError(LookupError):
    """Raised for a name that is neither an item nor an owner of the group. The message is one sentence."""


class TaskState(Protocol):
    """The state of an application's tasks: where its copies are, and their lags. Lags are in records, as members
    reported them when they last joined."""

    @property
    def copies(self) -> tuple[CopyLag, ...]:
        """Every standby and warm-up of the target."""

    def task(self, item: int) -> str | None:
        """Returns the task's name, or None if the item is not a task."""

    def last_copies(self, rules: Sequence[Rule]) -> IntArray:
        """Returns the items whose only caught-up copies are on owners that these rules evacuate."""


@dataclass(frozen=True, slots=True)
class NoState:
    """The state of items that have none, such as partitions. `items` is how many there are."""

    items: int
    copies: tuple[CopyLag, ...] = ()

    def task(self, item: int) -> None:
        """Returns None: a partition is not a task."""

    def last_copies(self, rules: Sequence[Rule]) -> IntArray:  # noqa: ARG002 - see TaskState
        return np.zeros(0, dtype=np.int32)


class GroupPlan(Protocol):
    """The owners of all items before and after a rebalance. An item is a partition of a consumer group or a task of an
    application; an owner is a member or a process. Items and owners are indices.

    `before` and `owner` (the target) hold the owner of each item, NOBODY for none. `pending` marks items that are sent
    one rebalance later. `item_of` is the item of each flat partition of `cluster`, NOBODY for partitions that are not
    the group's.
    """

    @property
    def words(self) -> Words: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def owners(self) -> tuple[Owner, ...]: ...
    @property
    def before(self) -> IntArray: ...
    @property
    def owner(self) -> IntArray: ...
    @property
    def pending(self) -> BoolArray: ...
    @property
    def item_of(self) -> IntArray: ...
    @property
    def state(self) -> TaskState:
        """The state of items that are tasks; `NoState` for partitions."""

    @property
    def replayable(self) -> bool:
        """Whether the plan can be computed again from what members sent, the cluster and the plan before alone."""

    @property
    def shutdown(self) -> bool:
        """Whether the application asked to stop. Then all members receive that answer, and the plan is empty."""

    @property
    def application(self) -> str:
        """A description of the application; "" for consumers."""

    def name(self, item: int) -> str: ...
    def names(self, items: IntArray | LongArray) -> list[str]: ...
    def cost(self, owner: IntArray) -> Cost:
        """Returns the cost of a plan in the same coordinates as `before` and `owner`."""

    def read_remotely(self, owner: IntArray) -> tuple[BoolArray, BoolArray]:
        """Returns two masks over items: those where the racks of the owner and of the replicas are known, and those
        read from another rack."""

    def topic_changes(self, previous: Self) -> list[str]:
        """Describes how topics changed since `previous`, a plan of the same group."""

    def summary(self) -> dict[str, object]:
        """Returns the fields of a log line that are specific to this kind of plan."""

    def findings(self, raw: RawGroup, assignments: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
        """Describes every way in which these bytes for the members of `raw` differ from the plan or are invalid; () if
        none."""

    def in_generation(self, generation: int) -> Self:
        """Returns the same plan for another generation with the same members."""

    def placed_by(self, item: int, policy: str, stages: Sequence[StageReport]) -> str:
        """Returns the name of the stage that placed the item where it is."""

    def rejected_claims(self, item: int) -> tuple[str, ...]:
        """Returns members' refused claims to the item, as parts of sentences that begin with the member."""

    def why_moved(self, item: int, stages: Sequence[StageReport]) -> str: ...
    def alternatives(self, item: int, most: int) -> tuple[Alternative, ...]:
        """Returns owners that could have the item: the planned owner first, then the previous one."""

    def infeasible(self, rule: Rule, others: Sequence[Rule]) -> str:
        """Returns why these owners cannot satisfy an operator's rule together with the other rules, as a part of a
        sentence."""

    def against(self, rules: Sequence[Rule], owner: IntArray) -> IntArray:
        """Returns the items whose owner violates a rule that another owner could satisfy."""

    def named(self, where: str) -> BoolArray:
        """Marks the owners to which an operator's `where` refers."""

    def find(self, text: str) -> list[int]:
        """Returns the item with this name, or the items of the owner with this name. Raises UnknownItemError."""


P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)


@dataclass(frozen=True, eq=False)  # no slots: some values are computed on first use
class Decision(Generic[P_co]):
    """The complete result of one rebalance.

    `assignments` has (member id, bytes) for every member of `raw`, Bellwether's own included. `notes` are the policy's
    remarks on its plan. `probing_at_ms` is when Bellwether should rejoin, to promote warm-ups or because a process is
    expected back until then; None if there is no need. `called_at_ms` (epoch) is when the plan makes the first members
    rejoin; None if it makes none rejoin. `promised` has, per item, the owner for which the previous rebalance left it
    pending, NOBODY for none; None if that rebalance is unknown.
    """

    raw: RawGroup
    policy: str
    decided_at_ms: int
    seed: int
    plan: P_co
    assignments: tuple[tuple[str, bytes], ...]
    stages: tuple[StageReport, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    probing_at_ms: int | None = None
    called_at_ms: int | None = None
    promised: IntArray | None = None

    @property
    def cluster(self) -> ClusterView:
        """The cluster as planned for. It may hold more than the view given: unreadable topics are included at their
        remembered size."""
        return self.plan.cluster

    @property
    def followup(self) -> bool:
        """Whether something is pending, so that another rebalance must follow."""
        return bool(self.plan.pending.any())

    def called_in_ms(self, now_ms: int) -> int | None:
        """Returns the milliseconds from `now_ms` (epoch) until `called_at_ms`, 0 if that has passed."""
        return None if self.called_at_ms is None else max(0, self.called_at_ms - now_ms)

    @cached_property
    def moves(self) -> Moves:
        before = self.plan.before
        if self.promised is not None:
            before = np.where(before == NOBODY, self.promised, before)
        return moves(before, self.plan.owner)

    def counted_after(self, previous: "Decision[GroupPlan]") -> Self:
        """Returns the same decision, not counting moves that `previous` began."""
        if not previous.followup:
            return self
        plan, former = self.plan, previous.plan
        index = {owner.key: i for i, owner in enumerate(plan.owners)}
        waiting = np.flatnonzero(former.pending)
        names, owners = former.names(waiting), former.owner[waiting].tolist()
        due = {name: index.get(former.owners[i].key, NOBODY) for name, i in zip(names, owners, strict=True)}
        free = np.flatnonzero((plan.before == NOBODY) & (plan.owner != NOBODY))
        promised = np.full(len(plan.owner), NOBODY, dtype=np.int32)
        promised[free] = [due.get(name, NOBODY) for name in plan.names(free)]
        return replace(self, promised=promised)

    @cached_property
    def cost(self) -> Cost:
        """The cost of the target. Pending items count as if their new owner had them."""
        return self.plan.cost(self.plan.owner)
