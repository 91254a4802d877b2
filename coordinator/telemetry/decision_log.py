"""One log line per plan that the broker has: why the round happened, what it changed, how long it took, what is odd."""

from collections.abc import Callable

from bellwether_kafka.assignors.streams import ProcessSummary
from bellwether_kafka.coordinator.planning import Planned, PlannedTasks, Source, report, short
from bellwether_kafka.coordinator.telemetry.logs import get

log = get(__name__)


def log_decision(planned: Planned) -> None:
    """The runtime's observer of decisions on consumer groups."""
    chosen, timings = planned.chosen, planned.timings
    decision = chosen.decision
    after = decision.score_after
    _level(planned)(
        "decision",
        group=decision.raw.group_id,
        generation=decision.raw.generation,
        protocol=decision.raw.protocol,
        policy=decision.policy,
        source=chosen.source.value,
        cause=planned.cause.sentence,
        members=decision.group.size,
        partitions=after.owned,
        unowned=after.unowned,
        kept=decision.moves.kept,
        moved=decision.moves.moved,
        new=decision.moves.new,
        withheld=int(decision.plan.withheld.sum()),
        cross_rack=after.cross_rack,
        spread=after.spread,
        metadata_ms=round(timings.metadata_s * 1000, 1),
        plan_ms=round(timings.plan_s * 1000, 1),
        sync_ms=round(timings.sync_s * 1000, 1),
        warnings=list(decision.warnings),
        not_taken=list(chosen.reasons),
    )


def log_streams_decision(planned: PlannedTasks) -> None:
    """The same for Streams applications."""
    chosen, timings = planned.chosen, planned.timings
    decision = chosen.decision
    found = report(decision)
    _level(planned)(
        "streams_decision",
        group=decision.raw.group_id,
        generation=decision.raw.generation,
        policy=decision.policy,
        source=chosen.source.value,
        cause=planned.cause.sentence,
        processes={short(p.process_id): _tasks(p) for p in found.processes},
        threads=found.threads,
        tasks=found.tasks,
        kept=decision.moves.kept,
        moved=decision.moves.moved,
        new=decision.moves.new,
        withheld=found.withheld,
        warmups=[f"{w.task} on {short(w.process_id)}, {w.lag} behind" for w in found.warmups],
        standbys=found.standbys,
        standby_lag=found.standby_lag,
        standby_lag_age_ms=found.standby_lag_age_ms,
        lags_known=decision.lags_known,
        cross_rack=found.cross_rack,
        stages=[f"{stage.stage}: {stage.reason}" for stage in decision.stages],
        probing_in_ms=found.probing_at_ms and found.probing_at_ms - decision.decided_at_ms,
        read_ms=round(timings.metadata_s * 1000, 1),
        plan_ms=round(timings.plan_s * 1000, 1),
        sync_ms=round(timings.sync_s * 1000, 1),
        warnings=list(decision.warnings),
        not_taken=list(chosen.reasons),
    )


def _level(planned: Planned | PlannedTasks) -> Callable[..., None]:
    doubtful = planned.chosen.decision.warnings or planned.chosen.source is not Source.PLAN
    level: Callable[..., None] = log.warning if doubtful else log.info
    return level


def _tasks(process: ProcessSummary) -> str:
    """Stateful and stateless active tasks, standbys, warm-ups."""
    return (
        f"{process.active_stateful}+{process.active_stateless}, {process.standby} standby, {process.warmup} warming up"
    )
