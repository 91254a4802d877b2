"""What a decided rebalance is, for every kind of group: one frozen value, of which logs, metrics, events, pages and
explanations are projections. What differs by kind is behind `GroupPlan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared.group import RawGroup
from bellwether_kafka.assignors.shared.model import NOBODY, BoolArray, ClusterView, IntArray, LongArray
from bellwether_kafka.assignors.shared.rules import Rule
from bellwether_kafka.assignors.shared.stage_report import StageReport
from bellwether_kafka.protocol.primitives import ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class Words:
    """What people call the things of one kind of group. `owner_before_name` are what stands before one name of an owner
    and before several of them, `name_chars` as much of a name as tells owners apart (None: all of it)."""

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
    """A member of a consumer group, or a process of an application, whose `members` are its threads. `topics` is what a
    consumer subscribes to; `degraded` says why its bytes could not be used."""

    name: str
    rack: str | None
    members: tuple[str, ...]
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    degraded: str | None = None

    @property
    def key(self) -> str:
        """What survives a restart."""
        return self.instance_id or self.name


@dataclass(frozen=True, slots=True)
class CopyLag:
    """A standby copy and how far it is behind. `lag` is in records, UNKNOWN_OFFSET_SUM where nothing is known;
    `age_ms` is the age of the report, None where the process reported nothing (then it restores everything)."""

    task: TaskId
    process_id: ProcessId
    warmup: bool
    lag: int
    age_ms: int | None


@dataclass(frozen=True, slots=True)
class Cost:
    """A plan in numbers, lower is better. `unowned` and `spread` (most minus fewest per member or process) count
    partitions, or tasks of an application; `cross_rack` partitions without a replica in their owner's rack."""

    unowned: int
    cross_rack: int
    spread: int


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions by what happens to them between two plans: `new` had no owner before, `lost` has none after.

    What is withheld counts as moved in the rebalance that plans it, and as kept in the one that hands it out.
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
    """One owner that could have an item. `verdict` is a sentence; `chosen` marks the plan's own answer.

    `held` is how many it has in the plan, `cross_rack` how many more (or fewer) would be read from another rack.
    """

    owner: str
    rack: str | None
    held: int
    allowed: bool
    chosen: bool
    cross_rack: int
    spread: int
    verdict: str


class UnknownItemError(LookupError):
    """A name that is neither an item nor an owner of the group. The message is one sentence."""


class TaskState(Protocol):
    """The state of the tasks of an application: where copies of it are and how far they are behind. Lags are in
    records, as members reported them when they last joined."""

    @property
    def copies(self) -> tuple[CopyLag, ...]:
        """Every standby and warm-up of the target."""

    @property
    def acceptable_lag(self) -> int:
        """How many records a copy may lack and still count as caught up."""

    @property
    def warmups_at_once(self) -> int:
        """How many copies warm up at a time."""

    def task(self, item: int) -> str | None:
        """Returns the item's name, None where it is not a task."""

    def last_copies(self, rules: Sequence[Rule]) -> IntArray:
        """Returns the items of whose state only owners that these rules empty have a copy that has caught up."""

    def lacking(self, owners: BoolArray) -> LongArray:
        """Returns, for each item, how many records of its state the best copy among these owners lacks: 0 for an item
        without state, -1 where it is not known."""


@dataclass(frozen=True, slots=True)
class NoState:
    """The state of items that have none, such as partitions. `items` is how many there are."""

    items: int
    copies: tuple[CopyLag, ...] = ()
    acceptable_lag: int = 0
    warmups_at_once: int = 1

    def task(self, item: int) -> None:
        """Returns None: a partition is not a task."""

    def last_copies(self, rules: Sequence[Rule]) -> IntArray:  # noqa: ARG002 - see TaskState
        return np.zeros(0, dtype=np.int32)

    def lacking(self, owners: BoolArray) -> LongArray:  # noqa: ARG002 - see TaskState
        return np.zeros(self.items, dtype=np.int64)


class GroupPlan(Protocol):
    """Who has what before and after a rebalance. An item is a partition of a consumer group or a task of an
    application, an owner is a member or a process; items and owners are indices.

    `before` and `owner` (the target) are the owners of all items, NOBODY for none; `pending` items are sent one
    rebalance later. `item_of` is the item of every flat partition of `cluster`, NOBODY for partitions that are none of
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
        """What is known of the state of items that are tasks; partitions have `NoState`."""

    @property
    def replayable(self) -> bool:
        """Whether what members have sent, the cluster and the plan before are all that it was made from."""

    @property
    def shutdown(self) -> bool:
        """The application asked to stop: its members get that answer, and the plan is empty."""

    @property
    def application(self) -> str:
        """Which application this is, in words; "" for consumers."""

    def name(self, item: int) -> str: ...
    def names(self, items: IntArray | LongArray) -> list[str]: ...
    def cost(self, owner: IntArray) -> Cost:
        """Of a plan in the same coordinates as `before` and `owner`."""

    def read_remotely(self, owner: IntArray) -> tuple[BoolArray, BoolArray]:
        """(items of which the racks of these owners and of the replicas are known, items read from another rack)."""

    def topic_changes(self, previous: Self) -> list[str]:
        """What has become of topics since a plan of the same group, in words."""

    def summary(self) -> dict[str, object]:
        """What a log line says of this kind of plan beside what it says of all of them."""

    def findings(self, raw: RawGroup, assignments: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
        """What is wrong with these bytes for the members of `raw`; () where they say what the plan says."""

    def in_generation(self, generation: int) -> Self:
        """The same plan for another rebalance of the same members."""

    def placed_by(self, item: int, policy: str, stages: Sequence[StageReport]) -> str:
        """The stage that put the item where it is."""

    def disbelieved(self, item: int) -> tuple[str, ...]:
        """What members say of having the item although it cannot be true: sentence parts, the member first."""

    def why_moved(self, item: int, stages: Sequence[StageReport]) -> str: ...
    def alternatives(self, item: int, most: int) -> tuple[Alternative, ...]:
        """Owners that could have the item: the planned one first, then the one before."""

    def infeasible(self, rule: Rule, others: Sequence[Rule]) -> str:
        """Why an operator's rule beside these others cannot be kept by these owners, as a part of a sentence."""

    def against(self, rules: Sequence[Rule], owner: IntArray) -> IntArray:
        """The items whose owner here stands against a rule that another one could keep."""

    def named(self, where: str) -> BoolArray:
        """Which of the owners an operator means by a place."""

    def find(self, text: str) -> list[int]:
        """The item of this name, or the items of the owner of this name. Raises UnknownItemError."""


P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)


@dataclass(frozen=True, eq=False)  # no slots: scores, names and memory are made on first use
class Decision(Generic[P_co]):
    """Everything about one decided rebalance.

    `assignments` has (member id, bytes) for every member id of `raw`, the instance's own included. `notes` are what the
    policy says of its plan. `probing_at_ms` is when Bellwether should rejoin, to promote warm-ups or because a process
    is expected back until then; None: no need.
    `called_at_ms` (epoch) is when the first members join again because the plan says so; None where it does not.
    `promised`: by item, the owner for whom the rebalance before withheld it, NOBODY for none; None where that rebalance
    is not known.
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
        """May hold more than the view given: unreadable topics at the size that is remembered."""
        return self.plan.cluster

    @property
    def followup(self) -> bool:
        """Something is withheld, so another rebalance must follow."""
        return bool(self.plan.pending.any())

    def called_in_ms(self, now_ms: int) -> int | None:
        """How long after `now_ms` (epoch) `called_at_ms` is, 0 where that has passed."""
        return None if self.called_at_ms is None else max(0, self.called_at_ms - now_ms)

    @cached_property
    def moves(self) -> Moves:
        before = self.plan.before
        if self.promised is not None:
            before = np.where(before == NOBODY, self.promised, before)
        return moves(before, self.plan.owner)

    def counted_after(self, previous: "Decision[GroupPlan]") -> Self:
        """The same decision, for which the moves that `previous` began are none of its own."""
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
        """Of the target: what is withheld counts as if its new owner had it."""
        return self.plan.cost(self.plan.owner)
