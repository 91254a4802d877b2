"""A Prometheus histogram of how long partitions or tasks had no owner, by group and cause."""

from collections.abc import Iterable

from prometheus_client import Histogram

from bellwether_kafka.assignors.shared import GroupPlan
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import Observation, Pause, Pauses, SeenRebalance, seen_pause
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry.metrics import Metrics

# Bounds that are common in service level objectives, and the usual session timeouts.
PAUSE_BUCKETS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 120.0, 300.0)


class PauseMetrics:
    """Records pauses of led groups from decisions, and of observed groups from rebalances. Register its `on_*` methods
    with the runtime."""

    def __init__(self, common: Metrics) -> None:
        text = "Time that partitions or tasks had no owner; one count for each pause."
        self.pause = Histogram(
            "bellwether_pause_seconds", text, ["group", "cause"], buckets=PAUSE_BUCKETS, registry=common.registry
        )
        self._led: dict[str, Pauses] = {}

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        group = planned.decision.raw.group_id
        self._count(group, self._led.setdefault(group, Pauses()).delivered(planned))

    def on_rebalance(self, seen: Observation, rebalance: SeenRebalance) -> None:
        pause = seen_pause(seen, rebalance)
        self._count(seen.group_id, () if pause is None else (pause,))

    def on_note(self, group: str, note: Note) -> None:
        """Forgets open pauses when Bellwether stops leading, since it cannot see when they end."""
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._led.pop(group, None)

    def on_gone(self, group: str) -> None:
        self.pause.remove_by_labels({"group": group})

    def _count(self, group: str, pauses: Iterable[Pause]) -> None:
        for pause in pauses:
            self.pause.labels(group, pause.cause.value).observe(pause.seconds)
