"""The parts of an assessment. Unknown numbers are None, and `unknown` has the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.observation import Finding

NOW, AS_RECORDED = "now", "as recorded"


@dataclass(frozen=True, slots=True)
class Prices:
    """The inputs for costs of plans. Without `weights` bytes are unknown, without `per_gb` costs are. `near` is whether
    consumers may fetch from followers in their rack; None if unknown, and then all reads count as from leaders."""

    weights: Weights = field(default_factory=Weights)
    per_gb: float | None = None
    currency: str = "USD"
    near: bool | None = None


@dataclass(frozen=True, slots=True)
class Measures:
    """The costs of one assignment. Counts are of partitions or tasks. `imbalance` is the fullest member over the mean,
    by load if `by_load`, else by count. `bytes_per_s` is the traffic across racks of partitions with a weight. It and
    `cross_rack` are None if the racks of members or replicas are unknown."""

    unowned: int
    cross_rack: int | None
    spread: int
    imbalance: float
    by_load: bool
    bytes_per_s: float | None
    cost_per_hour: float | None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The final assignment of the group under a policy. `leads` is true if Bellwether can lead with it; a broker's
    assignors are only for comparison. `moves` are from the present assignment over all `rebalances`. `why` is the
    reason if there are no measures, else "". `release` is the release of Kafka whose assignor it is, else ""."""

    policy: str
    leads: bool
    measures: Measures | None = None
    moves: int | None = None
    rebalances: int | None = None
    why: str = ""
    release: str = ""


@dataclass(frozen=True, slots=True)
class Storm:
    """Many rebalances within a short time. `behind` is their most frequent cause, "" if unknown."""

    from_ms: int
    to_ms: int
    rebalances: int
    behind: str


@dataclass(frozen=True, slots=True)
class SeenGhost:
    """A dead member. `from_ms` is the refresh that proved its death, `to_ms` the last one in which it was a member."""

    member_id: str
    client_id: str
    reason: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class PastRow:
    """The costs of a policy over the recorded rebalances. `rebalances` are those that it planned. Traffic and cost are
    per day."""

    policy: str
    rebalances: int
    moved: int
    cross_rack: float
    imbalance: float | None
    gb_per_day: float | None
    cost_per_day: float | None


@dataclass(frozen=True, slots=True)
class Period:
    """The rebalances and ghosts between two moments, from refreshes or recorded events. `member_s_min` and
    `member_s_max` are bounds for the member-seconds in which members of an eager group consumed nothing.
    `waited_member_s` is the part in which the group waited for members that never returned. `ghost_s` is how long dead
    members remained in the group. `stuck_ms` is how long the last rebalance had lasted at the last refresh, 0 if it had
    ended."""

    source: Literal["refreshes", "records"]
    from_ms: int
    to_ms: int
    rebalances: int | None = None
    causes: Mapping[str, int] = field(default_factory=dict)
    moved: int | None = None
    member_s_min: float | None = None
    member_s_max: float | None = None
    waited_member_s: float | None = None
    ghost_s: float | None = None
    ghosts: tuple[SeenGhost, ...] = ()
    storms: tuple[Storm, ...] = ()
    stuck_ms: int = 0
    policies: tuple[PastRow, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """The assessment of one group. `rows` begin with the present assignment, `NOW`."""

    group: str
    kind: str
    state: str
    protocol: str
    members: int
    seen_at_ms: int
    verdict: str
    lag_verdict: str | None
    rows: tuple[PolicyRow, ...]
    periods: tuple[Period, ...]
    findings: tuple[Finding, ...]
    configuration: str
    currency: str
    item: str = "partition"
    unknown: tuple[str, ...] = ()
