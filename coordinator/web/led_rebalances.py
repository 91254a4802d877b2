"""Keeps rebalances for display: the newest one of each group in full, earlier ones as one line."""

from collections import deque
from dataclasses import asdict, dataclass

from bellwether_kafka.assignors.shared import Decision, GroupPlan
from bellwether_kafka.coordinator.observation import Finding, anomalies_of_plan
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry import Followed, client_of
from bellwether_kafka.coordinator.web.picture import Picture, rebalance_picture

LINES_MAX = 200  # of all groups together


@dataclass(frozen=True, slots=True)
class Line:
    """The summary of one rebalance. Counts are of partitions or tasks. `by_order`: operators' orders have caused it."""

    group: str
    generation: int
    decided_at_ms: int
    cause: str
    source: str
    kept: int
    moved: int
    new: int
    lost: int
    plan_ms: float
    by_order: bool = False


class LedRebalances:
    """Keeps the rebalances of all led groups. Pictures are made on request, so that rebalances do not wait for them."""

    def __init__(self) -> None:
        self._newest: dict[str, Planned[GroupPlan]] = {}
        self._lines: deque[Line] = deque(maxlen=LINES_MAX)
        self._anomalies: dict[str, tuple[Finding, ...]] = {}

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        group = planned.decision.raw.group_id
        self._newest[group] = planned
        self._anomalies.pop(group, None)
        self._lines.appendleft(_line(planned))

    def lines(self) -> tuple[Line, ...]:
        """Returns the summaries, the newest first."""
        return tuple(self._lines)

    def picture(self, group: str) -> Picture | None:
        """Returns the picture of the group's newest rebalance, None if Bellwether has led none."""
        return rebalance_picture(self._newest[group]) if group in self._newest else None

    def decision(self, group: str) -> Decision[GroupPlan] | None:
        """Returns the decision of the newest rebalance, None if Bellwether has led none."""
        return self._newest[group].decision if group in self._newest else None

    def anomalies(self, group: str) -> tuple[Finding, ...]:
        """Returns the anomalies of the plan of the newest rebalance."""
        decision = self.decision(group)
        if decision is None:
            return ()
        if group not in self._anomalies:
            self._anomalies[group] = anomalies_of_plan(decision.plan, decision.raw.protocol, client_of)
        return self._anomalies[group]

    def followed(self, group: str) -> Followed | None:
        """Returns the assignment of the newest rebalance, None if Bellwether has led none."""
        decision = self.decision(group)
        return Followed.of(decision) if decision is not None else None


def _line(planned: Planned[GroupPlan]) -> Line:
    decision = planned.decision
    return Line(
        group=decision.raw.group_id,
        generation=decision.raw.generation,
        decided_at_ms=decision.decided_at_ms,
        cause=planned.cause.sentence,
        source=planned.source.value,
        **asdict(decision.moves),
        plan_ms=round(planned.timings.plan_s * 1000, 2),
        by_order=planned.cause.by_order,
    )
