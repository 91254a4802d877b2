"""Runs a plug-in's task assignor so that the application always gets a valid plan, whatever the plug-in does.

A plug-in that raises, or whose assignment is invalid, costs one rebalance: all processes keep what they have,
FallbackPrior places tasks without an owner, and another rebalance is requested, after a delay that grows each time.
After three failures in a row the plug-in is not called any more and HighAvailability plans instead, until the lead of
the group begins anew.

There is no time limit here: the caller that provides the thread handles a plug-in that does not return.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bellwether_kafka.assignors.shared import ClusterView, UnknownNameError, load_plugins
from bellwether_kafka.assignors.streams import api
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.policies import assign_fallback_prior, assign_streams
from bellwether_kafka.assignors.streams.threads import assign_threads
from bellwether_kafka.protocol.primitives import TaskId, TopicPartition

FAILURES_MAX = 3
RETRY_DELAYS_MS = (0, 10_000, 60_000)
"""KIP-924 promises the first retry at once; that is for errors that say so. All others start with the second delay."""
_TEXT_MAX = 300


class PluginError(Exception):
    """Raised for a plug-in that cannot be used at all. The message has its name and the reason."""


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """What is remembered of a plug-in between rebalances.

    `failures` counts failures in a row. `rebalances` counts rebalances in a row without a plan of the plug-in, which
    determine the delay of the next retry. They differ if the plug-in let a TaskAssignmentError through because lags
    could not be read, which is not its fault. `retry_at_ms` (epoch) is when the last rebalance should be repeated, None
    if it need not.
    """

    failures: int = 0
    rebalances: int = 0
    retry_at_ms: int | None = None
    last_failure: str = ""

    @property
    def disabled(self) -> bool:
        return self.failures >= FAILURES_MAX


class PluginRun(NamedTuple):
    """The plan to use, notes for operators, and the health to pass in next time. `plan.deadlines` has the follow-up
    rebalances that the plug-in requested, or else the retry, on the first process."""

    plan: StreamsPlan
    notes: tuple[str, ...]
    health: PluginHealth


class _Failed(NamedTuple):
    """Why there is no plan. `error` is None if the result could not be checked."""

    reason: str
    error: api.AssignmentError | None = None
    retriable: bool = False


def load_task_assignor(name: str, configs: Mapping[str, object], stock: Sequence[str] = ()) -> api.TaskAssignor:
    """Returns the configured task assignor with this name from the entry-point group `bellwether.assignors`. Raises
    PluginError if it is unknown, cannot be imported, is no task assignor, or rejects its settings. `stock` are the
    names that are no plug-ins."""
    try:
        assignor = load_plugins([name], stock)[name]
    except UnknownNameError as error:
        raise PluginError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"plug-in {name!r} cannot be loaded: {_text(error)}") from error
    if not callable(getattr(assignor, "assign", None)):
        raise PluginError(f"plug-in {name!r} is no task assignor: it has no method assign")
    configure = getattr(assignor, "configure", None)
    try:
        if configure is not None:
            configure(dict(configs))
    except (Exception, SystemExit) as error:
        raise PluginError(f"plug-in {name!r} rejects its settings: {_text(error)}") from error
    return assignor  # type: ignore[return-value]  # it has what is needed; the rest is checked whenever it is called


def run_plugin(
    assignor: api.TaskAssignor,
    view: StreamsView,
    configs: AssignmentConfigs,
    health: PluginHealth,
    *,
    now_ms: int,
    cluster: ClusterView | None = None,
) -> PluginRun:
    """Runs one rebalance of a plug-in. Never raises for anything that the plug-in does, and its plan is always valid
    (if there is a process to place tasks on).

    Without a plan of the plug-in all processes keep what they ran, whatever the load, as KIP-924 promises; shipped Java
    fails every thread instead. Standbys are then those of FallbackPrior, because a process reports all state on its
    disk as standbys, whether it was meant to keep it or not.

    `cluster` shows the plug-in racks and the partitions of every topic. Pure, as far as the plug-in is.
    """
    if health.disabled or view.size == 0:
        return _substitute(assignor, view, configs, health)
    state = api.from_view(view, configs, now_ms=now_ms, cluster=cluster)
    outcome = _outcome_of(assignor, state)
    if isinstance(outcome, StreamsPlan):
        notes = _announce(assignor, state, outcome, api.AssignmentError.NONE)
        return PluginRun(outcome, notes, PluginHealth())
    after = _worse(health, outcome, view, now_ms)
    retry = ((0, after.retry_at_ms or now_ms),)
    plan = replace(assign_fallback_prior(view, configs), probing=False, notes=(), deadlines=retry)
    notes = (_sentence(assignor, outcome, after),)
    if outcome.error is not None:
        notes += _announce(assignor, state, plan, outcome.error)
    return PluginRun(plan, notes, after)


def _substitute(
    assignor: api.TaskAssignor, view: StreamsView, configs: AssignmentConfigs, health: PluginHealth
) -> PluginRun:
    if view.size == 0:
        return PluginRun(assign_streams(view, configs), ("there is no process to place tasks on",), health)
    stock = "HighAvailability" if view.lags_known else "FallbackPrior"
    note = (
        f"{_name(assignor)} is disabled after {health.failures} failures in a row, the last one:"
        f" {health.last_failure}; {stock} places tasks instead"
    )
    return PluginRun(assign_streams(view, configs), (note,), replace(health, retry_at_ms=None))


def _outcome_of(assignor: api.TaskAssignor, state: api.ApplicationState) -> StreamsPlan | _Failed:
    """Returns the plug-in's plan, or why there is none."""
    try:
        entries = api.snapshot(assignor.assign(state))
        api.check(state, entries)
        plan = api.plan_of(state, entries)
    except api.InvalidAssignmentError as error:
        return _Failed(str(error), error.error)
    except api.TaskAssignmentError as error:
        return _Failed(_text(error), retriable=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code, which must not block the group
        return _Failed(_text(error))
    rows = {process.process_id: row for row, process in enumerate(state.view.processes)}
    deadlines = [(rows[e.process_id], int(e.deadline_ms)) for e in entries if e.deadline_ms is not None]
    return replace(plan, deadlines=tuple(sorted(deadlines)))


def _worse(health: PluginHealth, failed: _Failed, view: StreamsView, now_ms: int) -> PluginHealth:
    excused = failed.retriable and not view.lags_known
    step = health.rebalances if failed.retriable else health.rebalances + 1
    return PluginHealth(
        failures=health.failures + (not excused),
        rebalances=health.rebalances + 1,
        retry_at_ms=now_ms + RETRY_DELAYS_MS[min(step, len(RETRY_DELAYS_MS) - 1)],
        last_failure=failed.reason,
    )


def _announce(
    assignor: api.TaskAssignor, state: api.ApplicationState, plan: StreamsPlan, error: api.AssignmentError
) -> tuple[str, ...]:
    """Calls on_assignment_computed if the plug-in has it. Returns what it raised, as a note."""
    try:
        on_computed = getattr(assignor, "on_assignment_computed", None)
        if on_computed is None or getattr(on_computed, "__func__", None) is api.TaskAssignor.on_assignment_computed:
            return ()
        assignment = api.GroupAssignment() if error.unreadable else group_assignment(state, plan)
        on_computed(assignment, group_subscription(state), error)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - an observer must not affect the plan
        return (f"on_assignment_computed of {_name(assignor)} failed: {_text(raised)}",)
    return ()


def group_assignment(state: api.ApplicationState, plan: StreamsPlan) -> api.GroupAssignment:
    """Returns the plan by member, with tasks on threads as they are delivered."""
    threads = assign_threads(state.view, plan)
    ids = tuple(state.all_tasks)
    by_member: dict[str, api.ConsumerAssignment] = {}
    for process in state.view.processes:
        for member in process.members:
            thread = len(by_member)
            active = threads.active[thread].tolist()
            standby = threads.standby[thread].tolist()
            mine = tuple(ids[task] for task in active)
            by_member[member] = api.ConsumerAssignment(
                _partitions(state, mine), mine, tuple(ids[task] for task in standby)
            )
    return api.GroupAssignment(by_member)


def _partitions(state: api.ApplicationState, tasks: tuple[TaskId, ...]) -> tuple[TopicPartition, ...]:
    infos = state.all_tasks
    sources = (p for task in tasks for p in infos[task].topic_partitions if p.is_source)
    return tuple(sorted(p.topic_partition for p in sources))


def group_subscription(state: api.ApplicationState) -> api.GroupSubscription:
    """Returns what each member sent, as far as a view keeps it."""
    by_member: dict[str, api.ConsumerSubscription] = {}
    ids = tuple(state.all_tasks)
    for process_id, process in state.kafka_streams_states(compute_task_lags=False).items():
        for member in process.consumer_client_ids:
            tasks = tuple(ids[t] for t in state.view.tasks_of_thread(len(by_member)).tolist())
            by_member[member] = api.ConsumerSubscription(
                process_id, process.rack_id, process.client_tags, process.host_info, tasks
            )
    return api.GroupSubscription(by_member)


def _sentence(assignor: api.TaskAssignor, failed: _Failed, health: PluginHealth) -> str:
    what = "asked for a retry" if failed.retriable else "gave no valid assignment"
    end = (
        f"it is disabled now, after {health.failures} failures in a row"
        if health.disabled
        else f"failure {health.failures} of {FAILURES_MAX} in a row"
    )
    return f"{_name(assignor)} {what} ({failed.reason}); all members keep what they have; {end}"


def _name(assignor: api.TaskAssignor) -> str:
    return f"assignor {type(assignor).__name__}"


def _text(error: BaseException) -> str:
    """Returns an exception as a short text, even if it cannot format itself."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the exception is the plug-in's own class
        text = type(error).__name__
    return " ".join(text[:_TEXT_MAX].split())
