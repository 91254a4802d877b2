"""State that a restarted process has on its disk and does not report.

In Kafka Streams 4.3 the thread that starts up locks the directories of all stores until their tasks are assigned. So
the first JoinGroup after a restart reports none of them, and without a memory the process appears to have lost its
state: others restore what it has, and its own tasks may never come back. `use_hidden_state` is the overview.

What is remembered of a process that restarted:

* hidden state: tasks of which it had state and that it does not report now. It counts as the smallest possible state,
  so it decides who gets a copy only if no other process has more, and it never makes a task wait. If the process is
  given such a task, it reports it in the next rebalance, which confirms or ends the memory.
* trusted: hidden state that counts as caught up, if stores are known to be `durable`. If a process ran a task when it
  stopped and no process has run it since, then its disk has the state up to the last record of the changelog, or as
  close as a crash leaves it (the process id is stored there too: docs/internals/wire-formats.md#subscriptioninfo). The
  task goes back at once, in the rebalance in which the process returns. If the process does not report the state within
  RETURNING_MS, or reports a large lag, the next rebalance gives the task to a process that has caught up.
* resumed: a process that was evacuated before its restart (an order to restart it without a pause), or that died and is
  back while it is expected. Its copies have little to catch up, so it gets all of them at once; as warm-ups they would
  return only `max.warmup.replicas` at a time, with two rebalances for each batch.
* expected: an evacuated process that is about to stop, or any process that just left (see `expected`).
* promised: tasks that the last plan meant for the process but left pending, because their owner had not given them up.
  By the time it does, the changelog may have grown by more than the acceptable lag; the process gets them anyway if it
  has some state of them. Otherwise a burst of input would move tasks back and forth.
* homes: tasks that it ran until it restarted or was evacuated, and lost tasks: sent to it, but run by none of its
  threads now, because the broker or another leader removed the thread. It should get them back once it has caught up.

docs/guides/policies.md#what-streams-ha-remembers has an example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    IntArray,
    LongArray,
    Ragged,
    among,
    distinct,
    lookup,
    starts,
    task_code,
)
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
    TaskLags,
    TaskMap,
    has_state,
    is_caught_up,
)
from bellwether_kafka.assignors.streams.members.memory import ProcessRecord, StreamsMemory
from bellwether_kafka.assignors.streams.members.processes import DecodedStreams, ProcessMap
from bellwether_kafka.assignors.streams.members.reports import TimestampedView
from bellwether_kafka.assignors.streams.members.restarts import (
    LONG_AGO,
    RETURNING_MS,
    ProcessRecords,
    away_records,
    closes_until,
    continuing_processes,
    existing_tasks,
    expected_copies,
    present_records,
    ran_before_restart_of,
    reported_state,
    restart_times_ms,
    restarts_of,
    resumed_processes,
)

REJOIN_MS = 500  # at first; the next interval is as long as the process has been back
OPENING_MS = 50  # per store and thread (docs/internals/client-quirks.md#java-streams-threads)


@dataclass(frozen=True, slots=True, eq=False)
class HiddenState:
    """What is remembered in this rebalance, in the terms of this module.

    `hidden` and `trusted` are ascending codes of (process, task). `restarted_ms` is per process, LONG_AGO
    if no restart is remembered. `promised_to`, `ran_before_restart` and `lost_by` are per task: the process, NOBODY for
    none. `away` are the records of absent processes. `had` are ascending codes of what present processes ran by the
    last plan or should get back. `evacuated_ms` is, by process, since when it has had nothing left to run.
    """

    hidden: LongArray
    trusted: LongArray
    restarted_ms: LongArray
    promised_to: IntArray
    ran_before_restart: IntArray
    lost_by: IntArray
    away: ProcessRecords
    had: LongArray
    evacuated_ms: Mapping[int, int]

    def expects_reports(self, now_ms: int, lags: TaskLags) -> bool:
        """Returns whether a process that came back in this rebalance could take over more tasks once it has reported
        its state. If others took its tasks over, this includes tasks of any size, because it must first open its
        stores."""
        process, task = np.divmod(self.hidden, max(1, lags.tasks))
        taken_over = np.isin(process, list(self.evacuated_ms))
        unreported = taken_over | ~is_caught_up(lags.end_sum[task], lags.acceptable_lag)
        return bool((unreported & (self.restarted_ms[process] == now_ms)).any())

    def homes(self, affinity: IntArray) -> IntArray:
        """Returns, per task, the process that should get it back, NOBODY for none. `affinity` are the homes of host
        affinity."""
        home = self.promised_to  # first, because the owner has already given the task up for this process
        # Next affinity, which the operator configured, provided that the process has state of the task.
        for following in (affinity, self.ran_before_restart, self.lost_by):
            home = np.where(home == NOBODY, following, home)
        return home


def use_hidden_state(
    seen: TimestampedView,
    memory: StreamsMemory,
    decoded: DecodedStreams,
    process_map: ProcessMap,
    tasks: TaskMap,
    now_ms: int,
    configs: AssignmentConfigs,
    *,
    durable: bool = False,
) -> tuple[TimestampedView, HiddenState]:
    """Returns the view with remembered state added as far as it may count, and what is remembered. `durable`: stores
    survive a restart of their process."""
    view, acceptable_lag = seen.view, configs.acceptable_recovery_lag
    # The recipients of the last plan, and what is remembered of each present process.
    sent = _sent_to(memory, process_map, tasks)
    present = present_records(memory, process_map, now_ms)
    continuing = continuing_processes(memory, decoded, process_map)
    going_on = {p: record for p, record in present.items() if p in continuing}
    # Hidden state of processes that restarted recently, the earliest restart first.
    restarts = restarts_of(present, continuing, view, tasks, now_ms)
    hidden = _codes(view, [(r.process, r.task[r.hidden]) for r in restarts])
    # Treat as caught up only tasks that this process ran last.
    trusted = _codes(view, [(r.process, r.task[r.trusted(sent, now_ms)]) for r in restarts if durable])
    # Tasks that the last plan left pending go to the process they were meant for, even if it has fallen behind since.
    promised = _promised(view, tasks, going_on, sent)
    kept, promised_to = _keep_promises(view, promised, acceptable_lag)
    state = HiddenState(
        hidden=hidden,
        trusted=trusted,
        restarted_ms=restart_times_ms(view, restarts),
        promised_to=promised_to,
        ran_before_restart=ran_before_restart_of(view, restarts),
        lost_by=_lost_by(view, tasks, going_on, sent),
        away=away_records(memory, process_map, now_ms, standbys=configs.num_standby_replicas > 0),
        had=_codes(
            view, [(p, existing_tasks(tasks, record, record.ran | record.home)) for p, record in going_on.items()]
        ),
        evacuated_ms={p: record.evacuated_ms for p, record in present.items() if record.evacuated_ms is not None},
    )
    expected, expected_until_ms = expected_copies(state.away, tasks, now_ms)
    kept = replace(
        kept,
        resumed=resumed_processes(view, restarts, now_ms),
        copies=_codes(
            view, [(p, existing_tasks(tasks, record, record.ran | record.kept)) for p, record in present.items()]
        ),
        expected=expected,
        expected_until_ms=expected_until_ms,
        closes_until_ms=closes_until(present, view.size, now_ms),
    )
    # All other hidden state counts as a report of minimal state.
    return _report_hidden(replace(seen, view=kept), state, now_ms, acceptable_lag), state


def records_after(state: HiddenState, view: StreamsView, plan: StreamsPlan) -> ProcessRecords:
    """Returns what to remember once this plan has been sent. If a process is given a task, it will report it, so the
    task is no longer hidden; but trusted state stays hidden, because its store may take a while to open."""
    total = view.tasks.size
    mine = np.flatnonzero(plan.active != NOBODY)
    runs: LongArray = np.sort(task_code(plan.active[mine], mine, total))
    given = distinct(np.concatenate([runs, task_code(plan.standby_process, plan.standby_task, total)]))
    back = np.flatnonzero(state.ran_before_restart != NOBODY)
    home = task_code(state.ran_before_restart[back], back, total)
    if len(plan.evacuated):
        home = np.concatenate([home, state.had[plan.evacuated[state.had // max(1, total)]]])
    hidden = state.hidden[~among(state.hidden, given) | among(state.hidden, state.trusted)]
    code = distinct(np.concatenate([reported_state(view), given, hidden, home]))
    process, task = np.divmod(code, max(1, total))
    first = starts(process, view.size).tolist()
    subtopology, partition = view.tasks.subtopology[task], view.tasks.partition[task]
    copies = np.sort(task_code(plan.standby_process, plan.standby_task, total))
    marks = (among(code, runs), among(code, copies), among(code, np.sort(home)), among(code, hidden))
    by_process = {}
    for p, (of, at_ms) in enumerate(zip(view.processes, state.restarted_ms.tolist(), strict=True)):
        part = slice(first[p], first[p + 1])
        ran, kept, at_home, is_hidden = (mark[part] for mark in marks)
        restarted_ms = None if at_ms == LONG_AGO else at_ms
        empties = len(plan.evacuated) > 0 and bool(plan.evacuated[p])
        evacuated_ms = state.evacuated_ms.get(p, view.now_ms if empties else None)
        by_process[of.process_id] = ProcessRecord(
            subtopology[part],
            partition[part],
            ran,
            kept,
            at_home,
            is_hidden,
            restarted_ms,
            evacuated_ms=None if ran.any() else evacuated_ms,
        )
    return by_process | dict(state.away)


def rejoins_at_ms(state: HiddenState, lags: TaskLags, plan: StreamsPlan, capacity: IntArray, now_ms: int) -> int | None:
    """Returns when all threads should rejoin (epoch ms) so that a process that just came back can report its state;
    None if nothing waits for that. The interval grows each time, until the process counts as slow. A copy with more
    than half left to restore was not a hidden store; it is probed for when it should have caught up. `capacity` is the
    number of threads per process."""
    away_ms = now_ms - state.restarted_ms
    process, task = np.divmod(state.trusted, max(1, lags.tasks))
    waited_for = [away_ms[process[plan.active[task] == process]]]
    if plan.probing and len(plan.standby_task):
        back = np.flatnonzero(away_ms[plan.standby_process] <= RETURNING_MS)
        task, process = plan.standby_task[back], plan.standby_process[back]
        lag = lags.at(task, process)
        silent = among(task_code(process, task, lags.tasks), state.hidden) | (lag >= lags.end_sum[task])
        late = (lag > lags.acceptable_lag) & (silent | (lag <= lags.end_sum[task] // 2))
        waited_for.append(away_ms[process[late]])
    if plan.waiting and state.expects_reports(now_ms, lags):
        waited_for.append(np.zeros(1, dtype=np.int64))
    ages = np.concatenate(waited_for)
    return now_ms + max(_opening_ms(state, plan, capacity, now_ms), int(ages.min())) if len(ages) else None


def _opening_ms(state: HiddenState, plan: StreamsPlan, capacity: IntArray, now_ms: int) -> int:
    """Returns how long to wait for processes that came back in this rebalance, because their threads open stores one
    after the other. A thread that is called earlier joins only when it has opened all of them, and until then no member
    can commit under exactly-once."""
    back = state.restarted_ms == now_ms
    copies = np.bincount(plan.standby_process, minlength=len(back))
    of_a_thread = -(-copies[back] // capacity[back])
    return min(max(REJOIN_MS, OPENING_MS * int(of_a_thread.max(initial=0))), RETURNING_MS // 2)


def _sent_to(memory: StreamsMemory, process_map: ProcessMap, tasks: TaskMap) -> IntArray:
    """Returns, per task, the process of this rebalance that the last plan sent it to, even if its member ids have
    changed; NOBODY if the task was pending or the process is absent. One additional entry is for NOBODY."""
    index = {process.process_id: p for p, process in enumerate(process_map.processes)}
    keys = memory.plan.members.keys
    process = [index.get(memory.threads[k].process_id, NOBODY) if k in memory.threads else NOBODY for k in keys]
    process_of: IntArray = np.full(tasks.table.size + 1, NOBODY, dtype=np.int32)
    process_of[tasks.task_of] = lookup(
        np.array(process, dtype=np.int32), memory.plan.owner_in(tasks.cluster, keys), NOBODY
    )
    process_of[NOBODY] = NOBODY
    return process_of


def _promised(view: StreamsView, tasks: TaskMap, going_on: Mapping[int, ProcessRecord], sent: IntArray) -> LongArray:
    """Returns codes of stateful tasks that the last plan meant for a process and sent to none."""
    if not (view.tasks.stateful & (sent[:-1] == NOBODY)).any():
        return _codes(view, ())
    meant = [(p, tasks.index(record.subtopology, record.partition)[record.ran]) for p, record in going_on.items()]
    return _codes(view, [(p, task[(task != NOBODY) & (sent[task] == NOBODY)]) for p, task in meant])


def _lost_by(view: StreamsView, tasks: TaskMap, going_on: Mapping[int, ProcessRecord], sent: IntArray) -> IntArray:
    """Returns, per task, the process that it was sent to if no thread has it now; NOBODY for all other tasks."""
    owner: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    nowhere = view.running_on == NOBODY
    if not nowhere.any():
        return owner
    for p, record in going_on.items():
        task = tasks.index(record.subtopology, record.partition)[record.ran]
        owner[task[lookup(nowhere, task, False) & (sent[task] == p)]] = p
    return owner


def _codes(view: StreamsView, tasks_by_process: Sequence[tuple[int, LongArray]]) -> LongArray:
    """Returns the ascending codes of (process, its tasks)."""
    codes = [task_code(process, task, view.tasks.size) for process, task in tasks_by_process]
    return distinct(np.concatenate([np.zeros(0, dtype=np.int64), *codes]))


def _keep_promises(view: StreamsView, promised: LongArray, acceptable_lag: int) -> tuple[StreamsView, IntArray]:
    """Returns the view in which a process that was promised a task is within the acceptable lag, and, per task, that
    process, NOBODY if none. It must have some state of the task, and the task must run nowhere."""
    promised_to: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    if not len(promised):
        return view, promised_to
    report = view.report
    runs = np.zeros(view.tasks.size, dtype=np.bool_)
    runs[report.values[view.report_lag == LATEST_OFFSET]] = True
    usable = has_state(view.report_lag, view.tasks.end_sum[report.values]) & ~runs[report.values]
    kept: LongArray = np.flatnonzero(usable & among(report.codes(view.tasks.size), promised))
    lag = view.report_lag.copy()
    lag[kept] = np.minimum(lag[kept], acceptable_lag)
    promised_to[report.values[kept]] = report.row[kept]
    return replace(view, report_lag=lag), promised_to


def _report_hidden(seen: TimestampedView, state: HiddenState, now_ms: int, acceptable_lag: int) -> TimestampedView:
    """Returns the view with reports for hidden state: trusted state as caught up, all other as minimal. Other state
    that would thereby count as caught up is left out, because a running task must not move on account of a memory."""
    if not len(state.hidden):
        return seen
    view, total = seen.view, seen.view.tasks.size  # not 0, because some state is hidden
    end = view.tasks.end_sum[state.hidden % total]
    trusted = among(state.hidden, state.trusted)
    used = (end - 1 > max(0, acceptable_lag)) | trusted
    code = np.concatenate([view.report.codes(total), state.hidden[used]])
    lag = np.concatenate([view.report_lag, np.where(trusted, 0, end - 1)[used]])
    at_ms = np.concatenate([seen.report_at_ms, np.full(np.count_nonzero(used), now_ms)])
    order = np.argsort(code, kind="stable")
    view = replace(
        view,
        report=Ragged.of_codes(code[order], total, view.size),
        report_lag=lag[order],
        report_hidden=order >= len(view.report_lag),
    )
    return replace(seen, view=view, report_at_ms=at_ms[order])
