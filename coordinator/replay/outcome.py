"""The result of planning a recorded rebalance again, for a consumer group or an application."""

from dataclasses import dataclass

DIFFERENCES_MAX = 100
ANOTHERS = "the group was only observed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition or task whose owner differs. Owners are instance ids, else member ids; None means no owner."""

    item: str
    recorded: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class PlanCost:
    moved: int
    unowned: int
    cross_rack: int
    spread: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One rebalance planned again. `differs` counts partitions or tasks, of which `differences` lists the first.
    `failed` is why there is no plan now, "" if there is one. `caveat` is why differences may be insignificant, else
    ""."""

    group: str
    generation: int
    decided_at_ms: int
    policy: str
    recorded_policy: str
    members: int
    partitions: int
    differs: int
    differences: tuple[Difference, ...] = ()
    recorded: PlanCost | None = None
    now: PlanCost | None = None
    failed: str = ""
    caveat: str = ""

    @property
    def same(self) -> bool:
        return not self.differs and not self.failed
