"""What people and Prometheus get of a rebalance of a Streams application."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan, report
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.coordinator.planning import (
    CauseKind,
    Planned,
    cause,
)
from bellwether_kafka.coordinator.telemetry import Metrics, StreamsMetrics, log_decision, logs
from tests.kit.applications import FIRST, GROWN, IN_AZ1, IN_AZ2, ONE_STANDBY, WITHOUT_RACK
from tests.kit.plans import tasks
from tests.kit.streams import NOW_MS, Thread, always, group, led, placed

WARMUP_LAG = "bellwether_streams_warmup_lag_records"
WARMING = always(replace(placed([0, 1, 0, 1, 0, 1, 0, 1], [(4, 1)], probing=True), warmup=np.array([True])))


def test_numbers_of_a_first_plan() -> None:
    numbers, why = report(FIRST.plan), cause(None, FIRST)
    assert (why.kind, why.sentence) == (CauseKind.FIRST, "first plan, for 2 processes")
    assert (numbers.tasks, numbers.threads, numbers.standbys, numbers.pending) == (8, 2, 4, 0)
    assert [p.active_stateful + p.active_stateless for p in numbers.processes] == [4, 4]
    assert (numbers.standby_lag, numbers.standby_lag_age_ms) == (1000, None)
    assert FIRST.probing_at_ms is None


def test_lags_have_ages_and_pending_tasks_are_counted() -> None:
    numbers, why = report(GROWN.plan), cause(FIRST, GROWN)
    assert why.kind is CauseKind.JOINED
    assert "process 00000000 joined" in why.sentence
    assert numbers.pending == int(GROWN.plan.pending.sum()) > 0


def after(decision: Decision[TaskPlan], *threads: Thread, now_ms: int = NOW_MS + 5) -> Decision[TaskPlan]:
    return led(
        group(*(t.after(decision) for t in threads), generation=decision.raw.generation + 1),
        configs=ONE_STANDBY,
        memory=decision.plan.memory,
        now_ms=now_ms,
    )


def test_causes_of_rebalances() -> None:
    settled = after(GROWN, IN_AZ1, IN_AZ2, WITHOUT_RACK)
    assert cause(GROWN, settled).kind is CauseKind.PENDING
    assert cause(settled, after(settled, IN_AZ1, IN_AZ2, WITHOUT_RACK)).kind is CauseKind.AGAIN
    assert cause(settled, after(settled, IN_AZ1, IN_AZ2)).kind is CauseKind.LEFT
    swapped = led(group(IN_AZ1.after(settled), IN_AZ2.after(settled), Thread("d", 4), generation=4))
    assert cause(settled, swapped).kind is CauseKind.EXCHANGED
    probing = led(group(IN_AZ1, IN_AZ2), assignors=WARMING)
    assert cause(probing, led(group(IN_AZ1, IN_AZ2, generation=2))).kind is CauseKind.PROBE
    counts = {"orders": 5, "shop-by-user-repartition": 5, "shop-totals-changelog": 5}
    grown = led(group(IN_AZ1, IN_AZ2), counts=counts)
    why = cause(FIRST, grown)
    assert (why.kind, why.sentence) == (
        CauseKind.METADATA,
        "partitions changed of orders, shop-by-user-repartition",
    )
    silent_thread = Thread("x").with_user_data(None)
    joined = led(group(IN_AZ1, IN_AZ2, silent_thread))
    assert cause(FIRST, joined).sentence == "1 member without tasks joined"
    assert (why := cause(joined, FIRST)).kind is CauseKind.LEFT
    assert why.sentence == "1 member without tasks left"
    stop = led(group(replace(IN_AZ1, error_code=4), IN_AZ2))
    assert "shutdown of the application" in cause(FIRST, stop).sentence


def reported(metrics: Metrics, streams: StreamsMetrics, planned: Planned[TaskPlan]) -> None:
    metrics.on_decision(planned)
    streams.on_streams_decision(planned)


def samples(metrics: Metrics) -> Mapping[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(v for k, v in sorted(sample.labels.items()) if k != "group")): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }


def test_metrics_follow_processes_that_come_and_go() -> None:
    metrics = Metrics()
    streams = StreamsMetrics(metrics)
    reported(metrics, streams, tasks(FIRST))
    values = samples(metrics)
    process = str(FIRST.plan.view.processes[1].process_id)
    assert values["bellwether_streams_tasks", ("active_stateful",)] == 4
    assert values["bellwether_streams_tasks", ("standby",)] == 4
    assert values["bellwether_streams_process_tasks", ("active_stateless", process)] == 2
    assert values["bellwether_streams_standby_lag_records", ("1",)] == 1000
    assert math.isnan(values["bellwether_streams_standby_lag_age_seconds", ("1",)])  # they restore everything
    assert not [labels for name, labels in values if name in ("bellwether_streams_task_lag_records", WARMUP_LAG)]
    assert values["bellwether_unowned_partitions", ()] == 0
    assert values["bellwether_generation", ()] == 1
    reported(metrics, streams, tasks(led(group(IN_AZ1, generation=2)), FIRST))
    values = samples(metrics)
    assert values["bellwether_streams_processes", ()] == 1
    assert not [labels for name, labels in values if name == "bellwether_streams_process_tasks" and process in labels]
    assert values["bellwether_rebalances_total", ("led", "members left")] == 1
    assert values["bellwether_partition_spread", ()] == 0
    reported(metrics, streams, tasks(led(group(IN_AZ1, IN_AZ2, WITHOUT_RACK, generation=3)), FIRST))
    assert samples(metrics)["bellwether_partition_spread", ()] == 1, "eight tasks on three processes"


def test_lags_of_warm_ups_and_of_every_copy_are_reported() -> None:
    metrics = Metrics()
    streams = StreamsMetrics(metrics, by_task=True)
    reported(metrics, streams, tasks(led(group(IN_AZ1, IN_AZ2), assignors=WARMING)))
    values = samples(metrics)
    assert values[WARMUP_LAG, ("1",)] == 1000
    by_task = [(labels, lag) for (name, labels), lag in values.items() if name == "bellwether_streams_task_lag_records"]
    ((labels, lag),) = by_task
    assert (labels[0], labels[-1], lag) == ("warmup", "1_0", 1000)
    reported(metrics, streams, tasks(FIRST))
    assert (WARMUP_LAG, ("1",)) not in samples(metrics)


def test_the_rate_of_restoring_is_reported_once_two_reports_show_it() -> None:
    metrics = Metrics()
    streams = StreamsMetrics(metrics)
    rate = "bellwether_streams_restore_records_per_second"
    far = AssignmentConfigs(acceptable_recovery_lag=100)
    reported(metrics, streams, tasks(led(group(IN_AZ1, IN_AZ2), assignors=WARMING, configs=far)))
    assert math.isnan(samples(metrics)[rate, ()])
    behind = replace(IN_AZ2, sums={(1, 0): 500}, unique=1)
    later = led(group(IN_AZ1, behind, generation=2), assignors=WARMING, configs=far, now_ms=NOW_MS + 10_000)
    reported(metrics, streams, tasks(later))
    assert samples(metrics)[rate, ()] == 50.0, "500 records in ten seconds"


def test_a_log_line_says_what_happened() -> None:
    out = io.StringIO()
    logs.configure_logs("info", "json", out)
    log_decision(tasks(led(group(IN_AZ1, IN_AZ2), assignors=WARMING)))
    (line,) = [json.loads(text) for text in out.getvalue().splitlines()]
    assert line["event"] == "streams_decision"
    assert line["warmups"] == ["1_0 on 00000000, 1000 behind"]
    assert line["probing_in_ms"] == 600_000
    assert line["processes"] == {"00000000": "2+2, 0 standby, 1 warming up"}
