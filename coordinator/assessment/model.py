"""What an assessment of a group says. Numbers are None where nobody knows, and `unknown` has the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bellwether_kafka.assignors.shared import Weights

NOW, AS_RECORDED = "now", "as recorded"


@dataclass(frozen=True, slots=True)
class Prices:
    """What plans are weighed by. Without `weights` bytes are not known, without `per_gb` money is not. `near`: whether
    consumers may fetch from followers in their rack, None where nobody knows, so that leaders serve."""

    weights: Weights = field(default_factory=Weights)
    per_gb: float | None = None
    currency: str = "USD"
    near: bool | None = None


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one assignment. Counts are of partitions or tasks. `imbalance` is the fullest member over the mean, by load
    where `by_load`, else by count; `bytes_per_s` cross racks, of the partitions that have a weight. Without racks of
    members and replicas neither that nor `cross_rack` is known."""

    unowned: int
    cross_rack: int | None
    spread: int
    imbalance: float
    by_load: bool
    bytes_per_s: float | None
    cost_per_hour: float | None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """What the group would settle on under a policy. `leads`: Bellwether can lead by it; a broker's assignors are only
    compared with. `moves` are from what members have now, over all `rebalances`. `why`: why nothing is known, else
    ""."""

    policy: str
    leads: bool
    measures: Measures | None = None
    moves: int | None = None
    rebalances: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Storm:
    """Rebalances that came thick and fast. `behind` is what most of them had in common, "" for nothing known."""

    from_ms: int
    to_ms: int
    rebalances: int
    behind: str


@dataclass(frozen=True, slots=True)
class SeenGhost:
    """A dead member, from the look that proved it to the last that showed it."""

    member_id: str
    client_id: str
    reason: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class PastRow:
    """What a policy would have cost over the recorded rounds; traffic is of a day. `rebalances` were decided."""

    policy: str
    rebalances: int
    moved: int
    cross_rack: float
    imbalance: float | None
    gb_per_day: float | None
    cost_per_day: float | None


@dataclass(frozen=True, slots=True)
class Period:
    """What happened between two moments, by looks at the group or by recorded events. Member-seconds are those in which
    members of an eager group consumed nothing: at least, and at most. `waited_member_s` is the part in which the group
    waited for members that never came back; `ghost_s` is how long dead members were seen to keep their place.
    `stuck_ms`: how long it had been rebalancing without an end when it was last seen, 0 where it was at rest."""

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
class Finding:
    """Something that costs. Either Bellwether would avoid it, or it `cannot`, and says why; `setting` is the line that
    does it."""

    about: str
    message: str
    avoided: str = ""
    cannot: str = ""
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Of one group. `rows` begin with what is `NOW`; `obstacle` says why no client can lead it, "" where one can."""

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

    @property
    def now(self) -> Measures | None:
        return next((row.measures for row in self.rows if row.policy == NOW), None)


Document = dict[str, Any]
