"""Logs one line per plan that the broker has accepted: cause of the rebalance, changes, durations and warnings."""

import structlog

from bellwether_kafka.assignors.consumer import RACKLESS
from bellwether_kafka.assignors.shared import Decision, GroupPlan
from bellwether_kafka.coordinator.observation import known_cross_rack
from bellwether_kafka.coordinator.planning import Planned, Source

log = structlog.get_logger(__name__)

# By kind of group: the event name of the line, and the field for the time to read a plan's inputs.
_NAMES = {"consumer": ("decision", "metadata_ms"), "streams": ("streams_decision", "read_ms")}


def decision_fields(decision: Decision[GroupPlan]) -> dict[str, object]:
    """Returns what every log line of a plan says of its moves and costs. `cross_rack` is None where it is unknown."""
    return {
        **decision.plan.summary(),
        "kept": decision.moves.kept,
        "moved": decision.moves.moved,
        "new": decision.moves.new,
        "cross_rack": known_cross_rack(decision.plan, decision.plan.owner, decision.cost),
    }


def log_decision(planned: Planned[GroupPlan]) -> None:
    """Logs a plan. Register it with the runtime as an observer of decisions."""
    decision, timings = planned.decision, planned.timings
    name, read_ms = _NAMES[decision.plan.words.kind]
    odd = [warning for warning in decision.warnings if not warning.startswith(RACKLESS)]
    warns = odd or planned.source is not Source.PLAN
    (log.warning if warns else log.info)(
        name,
        group=decision.raw.group_id,
        generation=decision.raw.generation,
        policy=decision.policy,
        source=planned.source.value,
        cause=planned.cause.sentence,
        **decision_fields(decision),
        pending=int(decision.plan.pending.sum()),
        **{read_ms: round(timings.metadata_s * 1000, 1)},
        plan_ms=round(timings.plan_s * 1000, 1),
        sync_ms=round(timings.sync_s * 1000, 1),
        warnings=list(decision.warnings),
        not_taken=list(planned.reasons),
    )
