"""What the process remembers of rounds for people: the newest one of each group in full, those before as one line."""

from collections import deque
from dataclasses import dataclass

from bellwether_kafka.assignors.consumer import Decision
from bellwether_kafka.assignors.streams import StreamsDecision
from bellwether_kafka.coordinator.planning import Planned, PlannedTasks
from bellwether_kafka.coordinator.telemetry import Followed
from bellwether_kafka.coordinator.web.picture import Picture, consumer_picture, streams_picture

LINES_MAX = 200  # of all groups together


@dataclass(frozen=True, slots=True)
class Line:
    """One round in short. Counts are of partitions or tasks."""

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


class Rounds:
    """An observer of decisions. Pictures are drawn when somebody looks: a round must not wait for them."""

    def __init__(self) -> None:
        self._consumers: dict[str, Planned] = {}
        self._streams: dict[str, PlannedTasks] = {}
        self._lines: deque[Line] = deque(maxlen=LINES_MAX)

    def on_decision(self, planned: Planned) -> None:
        self._consumers[planned.chosen.decision.raw.group_id] = planned
        self._lines.appendleft(_line(planned.chosen.decision, planned))

    def on_streams_decision(self, planned: PlannedTasks) -> None:
        self._streams[planned.chosen.decision.raw.group_id] = planned
        self._lines.appendleft(_line(planned.chosen.decision, planned))

    def lines(self) -> tuple[Line, ...]:
        """The newest first."""
        return tuple(self._lines)

    def picture(self, group: str) -> Picture | None:
        """The newest round of this group, None where we have led none."""
        if group in self._consumers:
            return consumer_picture(self._consumers[group])
        if group in self._streams:
            return streams_picture(self._streams[group])
        return None

    def followed(self, group: str) -> Followed | None:
        """Who has what by that round."""
        if group in self._consumers:
            return Followed.of_decision(self._consumers[group])
        if group in self._streams:
            return Followed.of_tasks(self._streams[group])
        return None


def _line(decision: Decision | StreamsDecision, planned: Planned | PlannedTasks) -> Line:
    moves = decision.moves
    return Line(
        decision.raw.group_id,
        decision.raw.generation,
        decision.decided_at_ms,
        planned.cause.sentence,
        planned.chosen.source.value,
        moves.kept,
        moves.moved,
        moves.new,
        moves.lost,
        round(planned.timings.plan_s * 1000, 2),
    )
