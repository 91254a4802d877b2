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
  close as a crash leaves it (the process id is stored there too: docs/reference/wire-formats.md#subscriptioninfo). The
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

docs/reference/streams-stages.md#what-streams-ha-remembers has an example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
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
from bellwether_kafka.assignors.streams.members.expected import (
    ProcessRecords,
    back_until_ms,
    closes_until,
    existing_tasks,
    expected_copies,
)
from bellwether_kafka.assignors.streams.members.memory import ProcessRecord, StreamsMemory
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams, ProcessMap
from bellwether_kafka.assignors.streams.members.views import TimestampedView

REMEMBERED_MS = 600_000  # Streams' own state.cleanup.delay.ms: then it deletes state of tasks that it lacks
RETURNING_MS = 5_000  # how long Bellwether keeps polling a restarted process for its state
REJOIN_MS = 500  # at first; the next interval is as long as the process has been back
OPENING_MS = 50  # per store and thread (docs/reference/client-quirks.md#java-streams-threads)
LONG_AGO = -(2**62)


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
    present = _present_records(memory, process_map, now_ms)
    continuing = _continuing(memory, decoded, process_map)
    going_on = {p: record for p, record in present.items() if p in continuing}
    # Hidden state of processes that restarted recently, the earliest restart first.
    restarts = _restarts(present, continuing, view, tasks, now_ms)
    hidden = _codes(view, [(r.process, r.task[r.hidden]) for r in restarts])
    # Treat as caught up only tasks that this process ran last.
    trusted = _codes(view, [(r.process, r.task[r.trusted(sent, now_ms)]) for r in restarts if durable])
    # Tasks that the last plan left pending go to the process they were meant for, even if it has fallen behind since.
    promised = _promised(view, tasks, going_on, sent)
    kept, promised_to = _keep_promises(view, promised, acceptable_lag)
    state = HiddenState(
        hidden=hidden,
        trusted=trusted,
        restarted_ms=_restarted_ms(view, restarts),
        promised_to=promised_to,
        ran_before_restart=_ran_before_restart(view, restarts),
        lost_by=_lost_by(view, tasks, going_on, sent),
        away=_away(memory, process_map, now_ms, standbys=configs.num_standby_replicas > 0),
        had=_codes(
            view, [(p, existing_tasks(tasks, record, record.ran | record.home)) for p, record in going_on.items()]
        ),
        evacuated_ms={p: record.evacuated_ms for p, record in present.items() if record.evacuated_ms is not None},
    )
    expected, expected_until_ms = expected_copies(state.away, tasks, now_ms)
    kept = replace(
        kept,
        resumed=_resumed(view, restarts, now_ms),
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
    code = distinct(np.concatenate([_reported(view), given, hidden, home]))
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


@dataclass(frozen=True, slots=True, eq=False)
class _Restart:
    """A process that restarted at `at_ms`. Parallel to the tasks of `record`: `task` (NOBODY if it no longer exists),
    whether it is `stateful`, and whether the process `reported` state of it. `continuing`: a present thread took part
    in the last plan, so the restart was seen in an earlier rebalance."""

    process: int
    at_ms: int
    continuing: bool
    record: ProcessRecord
    task: LongArray
    stateful: BoolArray
    reported: BoolArray

    @property
    def hidden(self) -> BoolArray:
        hidden: BoolArray = self.stateful & ~self.reported
        return hidden & self.record.hidden if self.continuing else hidden

    @property
    def ran(self) -> BoolArray:
        """Marks tasks that it ran until it restarted and of which it may have state."""
        ran = self.record.home if self.continuing else self.record.ran | self.record.home
        usable: BoolArray = self.reported | self.hidden | ~self.stateful
        usable &= self.task != NOBODY
        return ran & usable

    def trusted(self, sent: IntArray, now_ms: int) -> BoolArray:
        """Marks hidden tasks that it ran last: it ran them until now, and no other process has run them since."""
        at_once = self.record.went_ms is None and now_ms - self.at_ms <= RETURNING_MS
        still_its_own: BoolArray = (sent[self.task] == self.process) & at_once
        return self.hidden & self.record.ran & still_its_own


def _present_records(memory: StreamsMemory, process_map: ProcessMap, now_ms: int) -> dict[int, ProcessRecord]:
    """Returns the records of present processes, except for those absent for so long that Streams has deleted their
    state."""
    records = [(p, memory.records.get(process.process_id)) for p, process in enumerate(process_map.processes)]
    return {
        p: _returned(record, now_ms) for p, record in records if record is not None and not _too_old(record, now_ms)
    }


def _returned(record: ProcessRecord, now_ms: int) -> ProcessRecord:
    """Drops the resumption of a process that died and is back late: it has been replaced, and warms up like others."""
    return replace(record, evacuated_ms=None) if record.died and back_until_ms(record, now_ms) is None else record


def _away(memory: StreamsMemory, process_map: ProcessMap, now_ms: int, *, standbys: bool) -> ProcessRecords:
    """Returns the records of processes that left recently. Once there is a process that was never seen before, none of
    them is expected any more, because it may be the replacement of one."""
    here = {process.process_id for process in process_map.processes}
    gone = {p: record for p, record in memory.records.items() if p not in here}
    since = {p: _missed(record, now_ms, standbys) if record.went_ms is None else record for p, record in gone.items()}
    if here - memory.records.keys():
        since = {p: replace(record, evacuated_ms=None) for p, record in since.items()}
    return {p: record for p, record in since.items() if not _too_old(record, now_ms)}


def _missed(record: ProcessRecord, now_ms: int, standbys: bool) -> ProcessRecord:
    """Records that a process is missing for the first time. If there are standbys, other processes now take over what
    no order had moved away before."""
    died = standbys and record.evacuated_ms is None
    return replace(record, went_ms=now_ms, evacuated_ms=now_ms if died else record.evacuated_ms, died=died)


def _too_old(record: ProcessRecord, now_ms: int) -> bool:
    return now_ms - (record.went_ms or now_ms) > REMEMBERED_MS


def _continuing(memory: StreamsMemory, decoded: DecodedStreams, process_map: ProcessMap) -> set[int]:
    """Returns the processes of which a thread took part in the last plan."""
    before = {m.member_id for m in memory.plan.members}
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    return {process for row, process in rows if decoded.members[row].member_id in before}


def _restarts(
    present: Mapping[int, ProcessRecord], continuing: set[int], view: StreamsView, tasks: TaskMap, now_ms: int
) -> list[_Restart]:
    """Returns the restarts of the last REMEMBERED_MS, the earliest first."""
    since = {p: record.restarted_ms if p in continuing else now_ms for p, record in present.items()}
    # If the clock was set back, a restart must not last until the clock has caught up.
    at = [(min(at_ms, now_ms), p) for p, at_ms in since.items() if at_ms is not None]
    recent = sorted((at_ms, p) for at_ms, p in at if now_ms - at_ms <= REMEMBERED_MS)
    reported = _reported(view) if recent else np.zeros(0, dtype=np.int64)
    made = []
    for at_ms, p in recent:
        task = tasks.index(present[p].subtopology, present[p].partition)
        stateful = lookup(view.tasks.stateful, task, False)
        sums_reported = among(task_code(p, task, view.tasks.size), reported)
        made.append(_Restart(p, at_ms, p in continuing, present[p], task, stateful, sums_reported))
    return made


def _resumed(view: StreamsView, restarts: Sequence[_Restart], now_ms: int) -> BoolArray:
    resumed = np.zeros(view.size, dtype=np.bool_)
    resumed[[r.process for r in restarts if r.record.evacuated_ms is not None and now_ms - r.at_ms <= RETURNING_MS]] = (
        True
    )
    return resumed


def _restarted_ms(view: StreamsView, restarts: Sequence[_Restart]) -> LongArray:
    at_ms = np.full(view.size, LONG_AGO, dtype=np.int64)
    for restart in restarts:
        at_ms[restart.process] = restart.at_ms
    return at_ms


def _ran_before_restart(view: StreamsView, restarts: Sequence[_Restart]) -> IntArray:
    owner: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    for restart in restarts:
        ran = restart.task[restart.ran]
        owner[ran[owner[ran] == NOBODY]] = restart.process  # the first to restart ran it before others filled in
    return owner


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


def _reported(view: StreamsView) -> LongArray:
    """Returns codes of the state that processes themselves reported, ascending."""
    usable = has_state(view.report_lag, view.tasks.end_sum[view.report.values])
    if len(view.report_hidden):
        usable &= ~view.report_hidden
    return view.report.codes(view.tasks.size)[usable]


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
