"""Streams placement, Kafka's classes and Bellwether's on the same inputs, for `make bench`.

Only the work itself is timed on either side, in memory. Both answers are compared: rack costs must be equal, standbys,
threads and HighAvailability placements the same. A JVM that does not finish is stopped and counted with the time that
it got. Kafka's classes answer in the referees of the differential tests, which state their own nanoseconds.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import IntArray, Ragged
from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
)
from bellwether_kafka.assignors.streams.placing import assign_high_availability
from bellwether_kafka.assignors.streams.threads import assign_threads
from tests.differential.rack_costs import active_cost, optimize_active, optimize_standby, standby_cost
from tests.differential.rack_problems import RackProblem, as_active
from tests.differential.thread_problems import ThreadProblem
from tests.interop.support.assignors.referee import problem as ha_problem
from tests.interop.support.jvm import java
from tests.kit.streams_views import Application, Instance, actives, process_id, standbys
from tests.lab.bench.outcome import timed_runs
from tests.lab.bench.streams_whole import whole_row_figures

RACKS = ("az1", "az2", "az3")
SUBTOPOLOGIES = 10
JVM_PATIENCE_S = 240
MEASURE_S = 2.0
LEAST_RUNS = 5
THREADS = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One line: milliseconds of the best run; `jvm_ms` None if only Bellwether runs; `stopped`: the JVM did not
    finish."""

    row: str
    jvm_ms: float | None
    stopped: bool
    own_ms: float
    outcome: str


def rows() -> Iterator[Row]:
    """Measures everything, row by row. Raises MissingToolError without a JDK, AssertionError where answers differ."""
    sizes = [(20, 200), (50, 500)]
    for processes, tasks in sizes:
        for strategy in ("min_traffic", BALANCE_SUBTOPOLOGY):
            yield active_row(processes, tasks, strategy)
    for processes, tasks in sizes:
        yield standby_row(processes, tasks)
    for processes, tasks in [(50, 1_000), (200, 4_000)]:
        for joining, standby in ((0, 1), (processes // 20, 1), (processes // 20, 2)):
            yield ha_row(processes, tasks, joining, standby)
    yield thread_row(2_000, 50)
    for processes, tasks in [(2_000, 100_000), (2_000, 1_000_000)]:
        for strategy in ("min_traffic", BALANCE_SUBTOPOLOGY):
            yield large_row(processes, tasks, strategy)
    yield large_standby_row(2_000, 100_000)
    yield from whole_rows()


def whole_rows() -> Iterator[Row]:
    """The rows that run no JVM: Bellwether's whole decisions, from bytes to bytes: settled, then processes join."""
    processes, joining = 2_000, 20
    with_standbys = [(10_000, 1), (100_000, 1), (100_000, 2), (1_000_000, 1), (1_000_000, 2)]
    for tasks, standby in [*((tasks, 0) for tasks in (10_000, 100_000, 1_000_000)), *with_standbys]:
        own, outcome = whole_row_figures(processes, tasks, joining, standby)
        name = f"whole decision, racks, {standby} standby, {joining} join, {processes:,} x {tasks:,}"
        yield Row(name, None, False, own, outcome)


def active_row(processes: int, tasks: int, strategy: str) -> Row:
    problem = as_active(rack_problem(processes, tasks), strategy=strategy)
    view = problem.view()
    before: IntArray = np.array(problem.active, dtype=np.int32)
    chosen: IntArray = np.arange(tasks, dtype=np.int32)
    own, after = best(lambda: actives_of(view, before, strategy))
    cost = active_cost(view, after, chosen, traffic_cost=10, non_overlap_cost=1, before=before)
    theirs = ask("bellwether.RackReferee", [problem.wire()])
    name = f"racks, actives, {strategy}, {processes} x {tasks:,}"
    if theirs is None:
        return Row(name, JVM_PATIENCE_S * 1e3, True, own, f"cost {cost:,}")
    assert theirs[0]["cost"] == cost, (theirs[0]["cost"], cost)
    return Row(name, theirs[0]["nanos"] / 1e6, False, own, f"cost {cost:,} on both sides")


def standby_row(processes: int, tasks: int) -> Row:
    problem = replace(rack_problem(processes, tasks), kind="standby")
    view, plan = problem.view(), problem.plan()
    own, after = best(lambda: standbys_of(view, plan))
    name = f"racks, one standby each, {processes} x {tasks:,}"
    theirs = ask("bellwether.RackReferee", [problem.wire()])
    cost = standby_cost(view, after, traffic_cost=10)
    if theirs is None:
        return Row(name, JVM_PATIENCE_S * 1e3, True, own, f"cost {cost:,}")
    expected = [p for holders in theirs[0]["standbys"] for p in sorted(holders)]
    assert after.standby_process.tolist() == expected
    return Row(name, theirs[0]["nanos"] / 1e6, False, own, f"cost {cost:,}, placements equal")


def ha_row(processes: int, tasks: int, joining: int, standby: int) -> Row:
    """HighAvailability without racks: a cold start, or new processes joining a settled application."""
    configs = AssignmentConfigs(num_standby_replicas=standby)
    application = Application([(tasks // SUBTOPOLOGIES, 100_000)] * SUBTOPOLOGIES)
    application.instances = [Instance(process_id(n + 1), THREADS) for n in range(processes - joining)]
    if joining:
        application.settle(assign_high_availability(application.view(), configs))
        application.instances += [Instance(process_id(processes + n), THREADS) for n in range(joining)]
    view = application.view()
    own, plan = best(lambda: assign_high_availability(view, configs))
    event = f"{joining} join" if joining else "cold start"
    name = f"HighAvailability, {standby} standby, {event}, {processes} x {tasks:,}"
    theirs = ask("bellwether.HaReferee", [ha_problem("ha", view, configs)] * 5)
    if theirs is None:
        return Row(name, JVM_PATIENCE_S * 1e3, True, own, "")
    assert actives(plan, view.size) == theirs[0]["active"]
    assert standbys(plan, view.size) == theirs[0]["standby"]
    return Row(name, min(t["nanos"] for t in theirs) / 1e6, False, own, "placements equal")


def thread_row(processes: int, each: int) -> Row:
    """A settled application whose processes have swapped a tenth of their tasks, and a stateless subtopology."""
    random = Random(4)
    problems = [thread_problem(random, each) for _ in range(processes)]
    view, plan = together(problems)
    own, dealt = best(lambda: assign_threads(view, plan))
    name = f"tasks to threads, {THREADS} each, {processes:,} x {processes * each:,}"
    theirs = ask("org.apache.kafka.streams.processor.internals.ThreadReferee", [p.wire() for p in problems] * 3)
    if theirs is None or len(theirs) < processes:
        return Row(name, JVM_PATIENCE_S * 1e3, True, own, "")
    for p, answer in enumerate(theirs[:processes]):
        for n, member in enumerate(view.processes[p].members):
            got = [t - p * each for t in dealt.active[p * THREADS + n].tolist()]
            assert got == sorted(answer["active"][member])
    rebalances = [
        sum(t["nanos"] for t in theirs[at : at + processes]) for at in range(0, len(theirs) - processes + 1, processes)
    ]
    return Row(name, min(rebalances) / 1e6, False, own, "threads equal")


def large_row(processes: int, tasks: int, strategy: str) -> Row:
    view, before = large_view(processes, tasks)
    own, after = best(lambda: actives_of(view, before, strategy))
    chosen: IntArray = np.arange(tasks, dtype=np.int32)
    assert (np.bincount(before, minlength=processes) == np.bincount(after, minlength=processes)).all()
    costs = [active_cost(view, owners, chosen, traffic_cost=10) // 10 for owners in (before, after)]
    name = f"racks, actives, {strategy}, {processes:,} x {tasks:,}"
    return Row(name, None, False, own, f"cross-rack partitions {costs[0]:,} -> {costs[1]:,}")


def large_standby_row(processes: int, tasks: int) -> Row:
    view, active = large_view(processes, tasks)
    task: IntArray = np.arange(tasks, dtype=np.int32)
    plan = StreamsPlan(active, task, (active + 1 + task % 7) % np.int32(processes), np.zeros(tasks, dtype=np.bool_))
    own, after = best(lambda: standbys_of(view, plan))
    costs = [standby_cost(view, p, traffic_cost=1) for p in (plan, after)]
    name = f"racks, one standby each, {processes:,} x {tasks:,}"
    return Row(name, None, False, own, f"cross-rack partitions {costs[0]:,} -> {costs[1]:,}")


def actives_of(view: StreamsView, before: IntArray, strategy: str) -> IntArray:
    chosen: IntArray = np.arange(len(before), dtype=np.int32)
    return optimize_active(view, before, chosen, traffic_cost=10, non_overlap_cost=1, strategy=strategy)


def standbys_of(view: StreamsView, plan: StreamsPlan) -> StreamsPlan:
    return optimize_standby(view, plan, traffic_cost=10, non_overlap_cost=1, strategy="min_traffic")


def rack_problem(processes: int, tasks: int) -> RackProblem:
    """Tasks round robin, one source and one changelog partition each, replicas in two of three racks."""
    random = Random(processes)
    each = tasks // SUBTOPOLOGIES
    names = [(s, p) for s in range(SUBTOPOLOGIES) for p in range(each)]
    sources, changelogs = ([[sorted(random.sample(RACKS, 2))] for _ in names] for _ in range(2))
    return RackProblem(
        [random.choice(RACKS) for _ in range(processes)],
        names,
        sources,
        changelogs,
        [n % processes for n in range(tasks)],
        [[(n + 1 + n % 7) % processes] for n in range(tasks)],
        list(range(tasks)),
    )


def large_view(processes: int, tasks: int) -> tuple[StreamsView, IntArray]:
    """The same, made in bulk from a small one."""
    small = rack_problem(30, 300).view()
    rng = np.random.default_rng(tasks)
    table_ = small.tasks
    grown = replace(
        table_,
        subtopology=np.repeat(np.arange(SUBTOPOLOGIES, dtype=np.int32), tasks // SUBTOPOLOGIES),
        partition=np.tile(np.arange(tasks // SUBTOPOLOGIES, dtype=np.int32), SUBTOPOLOGIES),
        stateful=np.ones(tasks, dtype=np.bool_),
        end_sum=np.zeros(tasks, dtype=np.int64),
        source_signature=rng.integers(0, len(table_.source_remote), tasks).astype(np.int32),
        changelog_signature=rng.integers(0, len(table_.changelog_remote), tasks).astype(np.int32),
    )
    rack = rng.integers(0, len(RACKS), processes).astype(np.int32)
    view = replace(small, tasks=grown, processes=small.processes[:1] * processes, rack=rack)
    return view, (np.arange(tasks) % processes).astype(np.int32)


def thread_problem(random: Random, each: int) -> ThreadProblem:
    tasks: list[tuple[int, int, int | None]] = [(0, p, 1_000) for p in range(each - 10)]
    tasks += [(1, p, None) for p in range(10)]
    kept = [t for t in range(each - 10) if random.random() < 0.9]
    ids = [f"app-{random.getrandbits(32):08x}-StreamThread-{n}" for n in range(THREADS)]
    members = [(member, [(t, -2) for t in kept[n::THREADS]]) for n, member in enumerate(sorted(ids))]
    return ThreadProblem(tasks, list(range(each)), [], members)


def together(problems: Sequence[ThreadProblem]) -> tuple[StreamsView, StreamsPlan]:
    """One view of many processes, each with tasks of its own that keep their names (threads look no further)."""
    views = [p.view() for p in problems]
    each = views[0].tasks.size
    columns = ("subtopology", "partition", "stateful", "end_sum", "source_signature", "changelog_signature")
    joined: dict[str, Any] = {c: np.concatenate([getattr(v.tasks, c) for v in views]) for c in columns}
    shifted: dict[str, Any] = {
        name: Ragged.of_rows([getattr(v, name)[row] + p * each for p, v in enumerate(views) for row in range(rows)])
        for name, rows in (("report", 1), ("thread_tasks", THREADS))
    }
    view = replace(
        views[0],
        tasks=replace(views[0].tasks, **joined),
        processes=tuple(v.processes[0] for v in views),
        capacity=np.concatenate([v.capacity for v in views]),
        rack=np.concatenate([v.rack for v in views]),
        report_lag=np.concatenate([v.report_lag for v in views]),
        **shifted,
    )
    return view, StreamsPlan.of_active(np.repeat(np.arange(len(views), dtype=np.int32), each))


def best(work: Callable[[], T]) -> tuple[float, T]:
    """(milliseconds of the best run, its answer)."""
    return min(timed_runs(work, LEAST_RUNS, MEASURE_S), key=lambda run: run[0])


def ask(main_class: str, problems: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Java's answers as far as they come in time, None if none does."""
    lines = "".join(json.dumps(p) + "\n" for p in problems)
    quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Xmx2g")
    command = java().command(main_class, options=quiet)
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=JVM_PATIENCE_S, check=True)
        message = done.stdout
    except subprocess.TimeoutExpired as stopped:
        got: Any = stopped.stdout  # bytes, although `text` is given
        message = got.decode() if isinstance(got, bytes) else got or ""
    answers = [json.loads(line) for line in message.splitlines(keepends=True) if line.endswith("\n")]
    if not answers:
        return None
    assert all("error" not in answer for answer in answers), answers[0]
    return answers
