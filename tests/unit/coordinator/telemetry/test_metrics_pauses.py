"""Pauses as Prometheus sees them."""

from bellwether_kafka.assignors.shared import NOBODY, Moves
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import Observation, SeenRebalance
from bellwether_kafka.coordinator.planning import CauseKind
from bellwether_kafka.coordinator.telemetry import Metrics, PauseMetrics
from tests.kit.plans import delivered


def reported(metrics: Metrics, cause: CauseKind) -> tuple[float | None, float | None]:
    """How many pauses there were, and how many seconds in all."""
    labels = {"group": "g", "cause": cause.value}
    count, total = (
        metrics.registry.get_sample_value(f"bellwether_pause_seconds_{n}", labels) for n in ("count", "sum")
    )
    return count, total


def test_pauses_of_a_led_and_of_an_observed_group_are_counted() -> None:
    metrics = Metrics()
    pauses = PauseMetrics(metrics)
    pauses.on_decision(delivered(10, [0, 0, 0, 0], [0, 0, 1, 1], (2, 3)))
    pauses.on_decision(delivered(13, [0, 0, NOBODY, NOBODY], [0, 0, 1, 1], why=CauseKind.PENDING))
    assert reported(metrics, CauseKind.JOINED) == (1.0, 3.0)
    seen = Observation("g", "classic", "Stable", "cooperative-sticky", 20_000)
    ended = SeenRebalance(10_000, "b left", 0, 10_000, False, Moves(1, 1, 0, 0), CauseKind.LEFT)
    pauses.on_rebalance(seen, ended)
    assert reported(metrics, CauseKind.LEFT) == (1.0, 10.0)
    pauses.on_gone("g")
    assert reported(metrics, CauseKind.LEFT) == (None, None)


def test_what_happens_while_another_leads_is_no_pause() -> None:
    metrics = Metrics()
    pauses = PauseMetrics(metrics)
    pauses.on_decision(delivered(10, [0, 0, 0, 0], [0, 0, 1, 1], (2, 3)))
    pauses.on_note("g", Note(NoteKind.LEFT, "an order"))
    pauses.on_decision(delivered(500, [0, 0, NOBODY, NOBODY], [0, 0, 1, 1], first=True))
    assert reported(metrics, CauseKind.JOINED) == (None, None)
