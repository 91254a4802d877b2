"""State that a restarted process has on its disk and does not report.

Kafka Streams 4.3 keeps the directories of its stores locked by the thread that starts it, until it is given their
tasks. So the first JoinGroup of its new life names none of them, and without a memory it is a process that has lost its
state: others restore what it has, and its own tasks may never come back. `use_hidden_state` is the overview.

What is remembered of a process that restarted:

* hidden state: tasks of which it had state and that it does not report now. It counts as the very least that is state,
  so it decides who gets a copy where nobody else has more, and never makes anybody wait. A task that the process is
  given it reports in the next rebalance, which proves the memory right or ends it.
* trusted: hidden state that counts as caught up, where stores are known to be `durable`. A task that a process ran when
  it stopped, and that nobody has run since, is on its disk up to the last record of its changelog, or as near to it as
  a crash leaves it (the process id is kept there too: docs/reference/wire-formats.md#subscriptioninfo). It goes back
  at once, in the rebalance in which the process returns. If the process does not report within RETURNING_MS that it
  has it, or reports that it is far behind, the next rebalance gives the task to a process that has caught up.
* resumed: a process that had been emptied before it restarted (an order to restart it without a pause), or that is back
  from its death while it is expected. Its copies need little to catch up, so it gets all of them at once; as warm-ups
  they would return `max.warmup.replicas` at a time, at two rebalances for each few.
* expected: an emptied process that is about to stop, or any that went a moment ago (see `expected`).
* promised: tasks that the last plan meant for the process and withheld, because their owner had not let go of them.
  Until it has, the changelog may grow by more than the acceptable lag; the process gets them all the same, if it has
  state of them. Else tasks would go to and fro under a burst of input.
* its homes: tasks that it ran until it restarted or was emptied, and tasks that were lost, that is, sent to it and run
  by none of its threads now, because the broker or another leader removed the thread. It shall have them back once it
  has caught up.

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
    HeldBy,
    back_until_ms,
    closes_until,
    existing_tasks,
    expected_copies,
)
from bellwether_kafka.assignors.streams.members.memory import Held, StreamsMemory
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams, ProcessMap
from bellwether_kafka.assignors.streams.members.views import TimestampedView

REMEMBERED_MS = 600_000  # Streams' own state.cleanup.delay.ms: after that it deletes what it has no task of
RETURNING_MS = 5_000  # so long a restarted process is asked again and again what it has by now
ASK_MS = 500  # at first; then when it has been here twice as long
OPENING_MS = 50  # of a thread, for each store (docs/reference/client-quirks.md#java-streams-threads)
LONG_AGO = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class HiddenState:
    """What is remembered in this rebalance, in the words of this module.

    `hidden`, `trusted` and `promised` are ascending codes of (process, task). `restarted_ms` is per process, LONG_AGO
    for one of which no restart is remembered. `promised_to`, `ran_before_restart` and `lost_by` are per task: the
    process, NOBODY for none. `away` is what processes held that are not here. `had` are the ascending codes of what
    those that are here ran by the last plan or were to have back; those in `evacuated_ms` have had nothing left to run
    since then.
    """

    hidden: LongArray
    trusted: LongArray
    promised: LongArray
    restarted_ms: LongArray
    promised_to: IntArray
    ran_before_restart: IntArray
    lost_by: IntArray
    away: HeldBy
    had: LongArray
    evacuated_ms: Mapping[int, int]

    def asks(self, now_ms: int, lags: TaskLags) -> bool:
        """Whether a process has come back in this rebalance that can take over more once it has said what it has.
        Where others took its tasks over that is anything: it opens its stores first, also small ones."""
        process, task = np.divmod(self.hidden, max(1, lags.tasks))
        taken_over = np.isin(process, list(self.evacuated_ms))
        unsaid = taken_over | ~is_caught_up(lags.end_sum[task], lags.acceptable_lag)
        return bool((unsaid & (self.restarted_ms[process] == now_ms)).any())

    def homes(self, affinity: IntArray) -> IntArray:
        """Per task the process that shall have it back, NOBODY for none. `affinity` are the homes of host affinity."""
        found = self.promised_to  # its owner has let go of it for this process, after all that else is remembered
        # Affinity is what the operator wants back, as long as the process has state of it.
        for following in (affinity, self.ran_before_restart, self.lost_by):
            found = np.where(found == NOBODY, following, found)
        return found


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
    """The view in which what is remembered counts as far as it may, and what is remembered. `durable`: stores survive
    the restart of their process."""
    view, acceptable_lag = seen.view, configs.acceptable_recovery_lag
    # Who was sent what in the last plan, and what is remembered of each process that is here.
    sent = _sent_to(memory, process_map, tasks)
    known = _known(memory, process_map, now_ms)
    continuing = _continuing(memory, decoded, process_map)
    going_on = {p: held for p, held in known.items() if p in continuing}
    # What processes that restarted not long ago hide, the earliest restart first.
    restarts = _restarts(known, continuing, view, tasks, now_ms)
    hidden = _codes(view, [(r.process, r.task[r.hidden]) for r in restarts])
    # What of it counts as caught up: they ran it until now, and nobody has run it since.
    trusted = _codes(view, [(r.process, r.task[r.trusted(sent, now_ms)]) for r in restarts if durable])
    # What the last plan withheld for a process: give it to that process, even where it has fallen behind meanwhile.
    promised = _promised(view, tasks, going_on, sent)
    kept, promised_to = _keep_promises(view, promised, acceptable_lag)
    state = HiddenState(
        hidden=hidden,
        trusted=trusted,
        promised=promised,
        restarted_ms=_restarted_ms(view, restarts),
        promised_to=promised_to,
        ran_before_restart=_ran_before_restart(view, restarts),
        lost_by=_lost_by(view, tasks, going_on, sent),
        away=_away(memory, process_map, now_ms, standbys=configs.num_standby_replicas > 0),
        had=_codes(view, [(p, existing_tasks(tasks, held, held.ran | held.home)) for p, held in going_on.items()]),
        evacuated_ms={p: held.evacuated_ms for p, held in known.items() if held.evacuated_ms is not None},
    )
    expected, expected_until_ms = expected_copies(state.away, tasks, now_ms)
    kept = replace(
        kept,
        resumed=_resumed(view, restarts, now_ms),
        copies=_codes(view, [(p, existing_tasks(tasks, held, held.ran | held.kept)) for p, held in known.items()]),
        expected=expected,
        expected_until_ms=expected_until_ms,
        closes_until_ms=closes_until(known, view.size, now_ms),
    )
    # All other hidden state is a report of almost nothing.
    return _report_hidden(replace(seen, view=kept), state, now_ms, acceptable_lag), state


def held_after(state: HiddenState, view: StreamsView, plan: StreamsPlan) -> HeldBy:
    """What to remember once this plan has been sent. A task that a process is given it will report itself, so that is
    hidden no more; a store that is trusted may take until it is opened."""
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
    held = {}
    for p, (of, at_ms) in enumerate(zip(view.processes, state.restarted_ms.tolist(), strict=True)):
        part = slice(first[p], first[p + 1])
        ran, kept, at_home, is_hidden = (mark[part] for mark in marks)
        restarted_ms = None if at_ms == LONG_AGO else at_ms
        empties = len(plan.evacuated) > 0 and bool(plan.evacuated[p])
        evacuated_ms = state.evacuated_ms.get(p, view.now_ms if empties else None)
        held[of.process_id] = Held(
            subtopology[part],
            partition[part],
            ran,
            kept,
            at_home,
            is_hidden,
            restarted_ms,
            evacuated_ms=None if ran.any() else evacuated_ms,
        )
    return held | dict(state.away)


def asks_again_at_ms(
    state: HiddenState, lags: TaskLags, plan: StreamsPlan, capacity: IntArray, now_ms: int
) -> int | None:
    """When the threads shall all join again (epoch ms), so that a process that came back a moment ago can say what it
    has by now; None where nothing waits for it. Each time it is given longer, until it counts as slow. A copy that has
    more than half to restore is not a store that was only hidden: it is probed for when it should have caught up.
    `capacity` are the threads of each process."""
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
    if plan.held and state.asks(now_ms, lags):
        waited_for.append(np.zeros(1, dtype=np.int64))
    ages = np.concatenate(waited_for)
    return now_ms + max(_opening_ms(state, plan, capacity, now_ms), int(ages.min())) if len(ages) else None


def _opening_ms(state: HiddenState, plan: StreamsPlan, capacity: IntArray, now_ms: int) -> int:
    """How long to leave processes that came back in this rebalance alone, because their threads open one store after
    the other. A thread that is called meanwhile joins when it is done with all, and until then nobody commits anything
    under exactly-once."""
    back = state.restarted_ms == now_ms
    copies = np.bincount(plan.standby_process, minlength=len(back))
    of_a_thread = -(-copies[back] // capacity[back])
    return min(max(ASK_MS, OPENING_MS * int(of_a_thread.max(initial=0))), RETURNING_MS // 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Restart:
    """A process that restarted at `at_ms`, and the tasks of `held` beside it: `task` (NOBODY for one that is gone),
    whether it is `stateful` and whether the process `reported` state of it. `continuing`: it joined before with the
    threads that it has, so its restart was seen in an earlier rebalance."""

    process: int
    at_ms: int
    continuing: bool
    held: Held
    task: LongArray
    stateful: BoolArray
    reported: BoolArray

    @property
    def hidden(self) -> BoolArray:
        hidden: BoolArray = self.stateful & ~self.reported
        return hidden & self.held.hidden if self.continuing else hidden

    @property
    def ran(self) -> BoolArray:
        """What it ran until it restarted and may have state of."""
        ran = self.held.home if self.continuing else self.held.ran | self.held.home
        usable: BoolArray = self.reported | self.hidden | ~self.stateful
        usable &= self.task != NOBODY
        return ran & usable

    def trusted(self, sent: IntArray, now_ms: int) -> BoolArray:
        """What it ran until now, and nobody has run since."""
        at_once = self.held.went_ms is None and now_ms - self.at_ms <= RETURNING_MS
        still_its_own: BoolArray = (sent[self.task] == self.process) & at_once
        return self.hidden & self.held.ran & still_its_own


def _known(memory: StreamsMemory, process_map: ProcessMap, now_ms: int) -> dict[int, Held]:
    """What processes of this rebalance held, unless they were away so long that Streams has deleted it."""
    held = [(p, memory.held.get(process.process_id)) for p, process in enumerate(process_map.processes)]
    return {p: _returned(known, now_ms) for p, known in held if known is not None and not _too_old(known, now_ms)}


def _returned(held: Held, now_ms: int) -> Held:
    """One that died and is late has been replaced: it warms up as others do."""
    return replace(held, evacuated_ms=None) if held.died and back_until_ms(held, now_ms) is None else held


def _away(memory: StreamsMemory, process_map: ProcessMap, now_ms: int, *, standbys: bool) -> HeldBy:
    """What processes held that went not long ago. Once there is a process that was never seen, nobody waits for any of
    them: it may be what came instead of one."""
    here = {process.process_id for process in process_map.processes}
    gone = {p: held for p, held in memory.held.items() if p not in here}
    since = {p: _missed(held, now_ms, standbys) if held.went_ms is None else held for p, held in gone.items()}
    if here - memory.held.keys():
        since = {p: replace(held, evacuated_ms=None) for p, held in since.items()}
    return {p: held for p, held in since.items() if not _too_old(held, now_ms)}


def _missed(held: Held, now_ms: int, standbys: bool) -> Held:
    """Missing for the first time. Where there are standbys, others take over now what no order let them take before."""
    died = standbys and held.evacuated_ms is None
    return replace(held, went_ms=now_ms, evacuated_ms=now_ms if died else held.evacuated_ms, died=died)


def _too_old(held: Held, now_ms: int) -> bool:
    return now_ms - (held.went_ms or now_ms) > REMEMBERED_MS


def _continuing(memory: StreamsMemory, decoded: DecodedStreams, process_map: ProcessMap) -> set[int]:
    """Processes of which a thread took part in the last plan."""
    before = {m.member_id for m in memory.plan.members}
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    return {process for row, process in rows if decoded.members[row].member_id in before}


def _restarts(
    known: Mapping[int, Held], continuing: set[int], view: StreamsView, tasks: TaskMap, now_ms: int
) -> list[_Restart]:
    """The restarts of the last REMEMBERED_MS, the earliest first."""
    since = {p: held.restarted_ms if p in continuing else now_ms for p, held in known.items()}
    # A clock that was set back must not make a restart last until it is where it was.
    at = [(min(at_ms, now_ms), p) for p, at_ms in since.items() if at_ms is not None]
    recent = sorted((at_ms, p) for at_ms, p in at if now_ms - at_ms <= REMEMBERED_MS)
    reported = _reported(view) if recent else np.zeros(0, dtype=np.int64)
    made = []
    for at_ms, p in recent:
        task = tasks.index(known[p].subtopology, known[p].partition)
        stateful = lookup(view.tasks.stateful, task, False)
        sums_reported = among(task_code(p, task, view.tasks.size), reported)
        made.append(_Restart(p, at_ms, p in continuing, known[p], task, stateful, sums_reported))
    return made


def _resumed(view: StreamsView, restarts: Sequence[_Restart], now_ms: int) -> BoolArray:
    resumed = np.zeros(view.size, dtype=np.bool_)
    resumed[[r.process for r in restarts if r.held.evacuated_ms is not None and now_ms - r.at_ms <= RETURNING_MS]] = (
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
        owner[ran[owner[ran] == NOBODY]] = restart.process  # who restarted first ran it before those that helped out
    return owner


def _sent_to(memory: StreamsMemory, process_map: ProcessMap, tasks: TaskMap) -> IntArray:
    """The process of this rebalance, under its old member ids too, that each task was sent to in the last plan; NOBODY
    where it was withheld, or the process is not here. One entry more, for no task."""
    index = {process.process_id: p for p, process in enumerate(process_map.processes)}
    keys = memory.plan.members.keys
    process = [index.get(memory.threads[k].process_id, NOBODY) if k in memory.threads else NOBODY for k in keys]
    found: IntArray = np.full(tasks.table.size + 1, NOBODY, dtype=np.int32)
    found[tasks.task_of] = lookup(np.array(process, dtype=np.int32), memory.plan.owner_in(tasks.cluster, keys), NOBODY)
    found[NOBODY] = NOBODY
    return found


def _promised(view: StreamsView, tasks: TaskMap, going_on: Mapping[int, Held], sent: IntArray) -> LongArray:
    """Codes of stateful tasks that the last plan meant for a process and sent to nobody."""
    if not (view.tasks.stateful & (sent[:-1] == NOBODY)).any():
        return _codes(view, ())
    meant = [(p, tasks.index(held.subtopology, held.partition)[held.ran]) for p, held in going_on.items()]
    return _codes(view, [(p, task[(task != NOBODY) & (sent[task] == NOBODY)]) for p, task in meant])


def _lost_by(view: StreamsView, tasks: TaskMap, going_on: Mapping[int, Held], sent: IntArray) -> IntArray:
    """The process that each task was sent to, if no thread has the task now; NOBODY for all other tasks."""
    owner: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    nowhere = view.running_on == NOBODY
    if not nowhere.any():
        return owner
    for p, held in going_on.items():
        task = tasks.index(held.subtopology, held.partition)[held.ran]
        owner[task[lookup(nowhere, task, False) & (sent[task] == p)]] = p
    return owner


def _codes(view: StreamsView, held: Sequence[tuple[int, LongArray]]) -> LongArray:
    """The ascending codes of (process, its tasks)."""
    codes = [task_code(process, task, view.tasks.size) for process, task in held]
    return distinct(np.concatenate([np.zeros(0, dtype=np.int64), *codes]))


def _reported(view: StreamsView) -> LongArray:
    """Codes of what processes said that they have, ascending."""
    usable = has_state(view.report_lag, view.tasks.end_sum[view.report.values])
    if len(view.report_hidden):
        usable &= ~view.report_hidden
    return view.report.codes(view.tasks.size)[usable]


def _keep_promises(view: StreamsView, promised: LongArray, acceptable_lag: int) -> tuple[StreamsView, IntArray]:
    """The view in which a process that was promised a task is within the acceptable lag of it, and that process per
    task, NOBODY where there is none: it has some state of the task, which runs nowhere."""
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
    """The view in which hidden state is reported, as almost nothing, and what is trusted as caught up. State that would
    count as caught up is left out, except what is trusted: nobody may be given a running task for the sake of a
    memory."""
    if not len(state.hidden):
        return seen
    view, total = seen.view, seen.view.tasks.size  # not 0: there is hidden state of some
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
