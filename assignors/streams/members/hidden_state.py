"""State that a restarted process has on its disk and does not report.

Kafka Streams 4.3 keeps the directories of its stores locked by the thread that starts it, until it is given their
tasks. So the first JoinGroup of its new life names none of them, and without a memory it is a process that has lost its
state: others restore what it has, and its own tasks may never come back.

We remember what each process reported, and take what is hidden now as a preference: as the very least that counts as
state (`with_recalled`), so that it decides who gets a copy where nobody else has more, and never makes anybody wait.
What is given back is reported in the next round, which proves the memory right or ends it.

One memory is more than a preference, where stores are known to be `durable`. A task that a process ran when it stopped,
and that nobody has run since, is on its disk up to the last record of its changelog, or as near to it as a crash
leaves it (reference §1.3: the process id is kept in the directory of the stores). It goes back to that process at
once, in the round in which the process returns, and nothing moves (`trusted`). If the process does not say within
RETURNING_MS that it has it, or says that it is far behind, the next round gives the task to whoever has caught up.

A promise is kept as well. Between the round in which a process has caught up on a task and the one in which the former
owner has let go of it, the changelog may have grown by more than the acceptable lag: what is withheld for a process
that has state of it is given to it all the same (`promised`). Else tasks would go to and fro under a burst of input.

A task that was sent to a process that is still here, and that nobody has now, was lost with one of its threads: the
broker or another leader removed it. The process is where it is at home, if it has caught up (`lost`).

The rest of that round trip is the leader's: it asks for the next round soon (`asks_again_at_ms`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray, among, distinct, starts
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    StreamsPlan,
    StreamsView,
    TaskLags,
    TaskMap,
    has_state,
)
from bellwether_kafka.assignors.streams.members.memory import Held, StreamsMemory
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams, ProcessMap
from bellwether_kafka.protocol.primitives import ProcessId

RECALL_MS = 600_000  # Streams' own state.cleanup.delay.ms: after that it deletes what it has no task of
RETURNING_MS = 5_000  # so long a restarted process is asked again and again what it has by now
ASK_MS = 500  # at first; then half as long again as it has been here
LONG_AGO = -(2**62)


HeldBy = Mapping[ProcessId, Held]


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """What is remembered in this round. `hidden` are codes (process * tasks + task) of hidden state, ascending, and
    `trusted` those of them that count as caught up; `promised` are codes of tasks that the last plan withheld for a
    process. `restarted_ms` is per process, LONG_AGO for one of which no restart is remembered. `home` is per task: the
    process that ran it until it restarted, and may have its state; NOBODY for none. `lost` is per task, too: the
    process that it was sent to, of which no thread has it now. `away` are processes that are not here."""

    hidden: LongArray
    trusted: LongArray
    promised: LongArray
    restarted_ms: LongArray
    home: IntArray
    lost: IntArray
    away: HeldBy


def recall(
    memory: StreamsMemory,
    decoded: DecodedStreams,
    process_map: ProcessMap,
    view: StreamsView,
    tasks: TaskMap,
    now_ms: int,
    *,
    durable: bool = False,
) -> Recalled:
    """What members hide in this round, by what they said and were given in former ones. `durable`: stores survive the
    restart of their process."""
    total = max(1, view.tasks.size)
    before = {m.member_id for m in memory.plan.members}
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    continuing = {process for row, process in rows if decoded.members[row].member_id in before}
    reported = _reported(view)
    restarted_ms = np.full(view.size, LONG_AGO, dtype=np.int64)
    home: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    sent = _sent_to(memory, process_map, tasks)
    codes: list[LongArray] = [np.zeros(0, dtype=np.int64)]
    trusted: list[LongArray] = [np.zeros(0, dtype=np.int64)]
    fresh = {process: held for process, held in memory.held.items() if now_ms - (held.went_ms or now_ms) <= RECALL_MS}
    known = {p: fresh[v.process_id] for p, v in enumerate(process_map.processes) if v.process_id in fresh}
    going_on = {p: known[p] for p in continuing & known.keys()}
    since = {p: held.restarted_ms if p in continuing else now_ms for p, held in known.items()}
    # A clock that was set back must not make a restart last until it is where it was.
    dated = [(min(at_ms, now_ms), p) for p, at_ms in since.items() if at_ms is not None]
    recent = [(at_ms, p) for at_ms, p in dated if now_ms - at_ms <= RECALL_MS]
    for at_ms, p in sorted(recent):
        held = known[p]
        task = tasks.index(held.subtopology, held.partition)
        stateful = np.append(view.tasks.stateful, False)[task]
        said = among(p * total + task, reported)
        hidden = stateful & ~said & (held.hidden if p in continuing else True)
        codes.append(p * total + task[hidden])
        if durable and held.went_ms is None and now_ms - at_ms <= RETURNING_MS:
            trusted.append(p * total + task[hidden & held.ran & (sent[task] == p)])
        ran = held.home if p in continuing else held.ran | held.home
        at_home = task[ran & (task != NOBODY) & (said | hidden | ~stateful)]
        home[at_home[home[at_home] == NOBODY]] = p  # who restarted first ran it before those that helped out
        restarted_ms[p] = at_ms
    return Recalled(
        hidden=distinct(np.concatenate(codes)),
        trusted=distinct(np.concatenate(trusted)),
        promised=_promised(view, tasks, going_on, sent),
        restarted_ms=restarted_ms,
        home=home,
        lost=_lost(view, tasks, going_on, sent),
        away=_away(memory, process_map, now_ms),
    )


def _sent_to(memory: StreamsMemory, process_map: ProcessMap, tasks: TaskMap) -> IntArray:
    """The process of this round, under its old member ids too, that each task was sent to in the last plan; NOBODY
    where it was withheld, or the process is not here. One entry more, for no task."""
    index = {process.process_id: p for p, process in enumerate(process_map.processes)}
    keys = memory.plan.members.keys
    process = [index.get(memory.threads[k].process_id, NOBODY) if k in memory.threads else NOBODY for k in keys]
    owner = memory.plan.owner_in(tasks.cluster, keys)
    found: IntArray = np.full(tasks.table.size + 1, NOBODY, dtype=np.int32)
    found[tasks.task_of] = np.array([*process, NOBODY], dtype=np.int32)[owner]
    found[NOBODY] = NOBODY
    return found


def _promised(view: StreamsView, tasks: TaskMap, known: Mapping[int, Held], sent: IntArray) -> LongArray:
    """Codes of stateful tasks that the last plan meant for a process and sent to nobody, ascending."""
    total = max(1, view.tasks.size)
    if not (view.tasks.stateful & (sent[:-1] == NOBODY)).any():
        return np.zeros(0, dtype=np.int64)
    found: list[LongArray] = [np.zeros(0, dtype=np.int64)]
    for p, held in known.items():
        task = tasks.index(held.subtopology, held.partition)[held.ran]
        found.append(p * total + task[(task != NOBODY) & (sent[task] == NOBODY)])
    return distinct(np.concatenate(found))


def _lost(view: StreamsView, tasks: TaskMap, known: Mapping[int, Held], sent: IntArray) -> IntArray:
    """The process that each task was sent to, if no thread has the task now; NOBODY for all other tasks."""
    found: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    nowhere = np.append(view.running_on == NOBODY, False)
    if not nowhere.any():
        return found
    for p, held in known.items():
        task = tasks.index(held.subtopology, held.partition)[held.ran]
        found[task[nowhere[task] & (sent[task] == p)]] = p
    return found


def keep_promises(view: StreamsView, recalled: Recalled, acceptable_lag: int) -> tuple[StreamsView, IntArray]:
    """The view in which a process that was promised a task is within the acceptable lag of it, and that process per
    task, NOBODY where there is none: it has some state of the task, which runs nowhere."""
    promised_to: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    if not len(recalled.promised):
        return view, promised_to
    total = max(1, view.tasks.size)
    process = np.repeat(np.arange(view.size, dtype=np.int64), np.diff(view.report_first))
    runs = np.zeros(total, dtype=np.bool_)
    runs[view.report_task[view.report_lag == LATEST_OFFSET]] = True
    usable = has_state(view.report_lag, view.tasks.end_sum[view.report_task]) & ~runs[view.report_task]
    kept: LongArray = np.flatnonzero(usable & among(process * total + view.report_task, recalled.promised))
    lag = view.report_lag.copy()
    lag[kept] = np.minimum(lag[kept], acceptable_lag)
    promised_to[view.report_task[kept]] = process[kept]
    return replace(view, report_lag=lag), promised_to


def with_recalled(view: StreamsView, recalled: Recalled, acceptable_lag: int) -> tuple[StreamsView, LongArray]:
    """The view in which hidden state counts as almost nothing; and where in it each report of `view` is.

    State that would count as caught up is left out, except what is trusted: nobody may be given a running task for the
    sake of a memory.
    """
    total = max(1, view.tasks.size)
    end = view.tasks.end_sum[recalled.hidden % total]
    trusted = among(recalled.hidden, recalled.trusted)
    used = (end - 1 > max(0, acceptable_lag)) | trusted
    lag = np.where(trusted, 0, end - 1)
    reporter = np.repeat(np.arange(view.size), np.diff(view.report_first))
    code = np.concatenate([reporter * total + view.report_task, recalled.hidden[used]])
    order = np.argsort(code, kind="stable")
    known = len(view.report_task)
    made = replace(
        view,
        report_first=starts(code[order] // total, view.size),
        report_task=(code[order] % total).astype(np.int32),
        report_lag=np.concatenate([view.report_lag, lag[used]])[order],
        recalled=order >= known,
    )
    return made, np.flatnonzero(order < known)


def held_after(recalled: Recalled, view: StreamsView, plan: StreamsPlan) -> HeldBy:
    """What to remember once this plan has been sent. Of a task that a process is given it will tell itself, so that is
    hidden no more; a store that is trusted may take until it is opened."""
    total = max(1, view.tasks.size)
    mine = np.flatnonzero(plan.active != NOBODY)
    runs: LongArray = np.sort(plan.active[mine].astype(np.int64) * total + mine)
    given = distinct(np.concatenate([runs, plan.standby_process.astype(np.int64) * total + plan.standby_task]))
    away = np.flatnonzero(recalled.home != NOBODY)
    home = recalled.home[away].astype(np.int64) * total + away
    hidden = recalled.hidden[~among(recalled.hidden, given) | among(recalled.hidden, recalled.trusted)]
    code = distinct(np.concatenate([_reported(view), given, hidden, home]))
    first = starts(code // total, view.size).tolist()
    task = code % total
    subtopology, partition = view.tasks.subtopology[task], view.tasks.partition[task]
    marks = (among(code, runs), among(code, np.sort(home)), among(code, hidden))
    held = {}
    for p, (process, at_ms) in enumerate(zip(view.processes, recalled.restarted_ms.tolist(), strict=True)):
        part = slice(first[p], first[p + 1])
        ran, at_home, is_hidden = (mark[part] for mark in marks)
        restarted_ms = None if at_ms == LONG_AGO else at_ms
        held[process.process_id] = Held(subtopology[part], partition[part], ran, at_home, is_hidden, restarted_ms)
    return held | dict(recalled.away)


def asks_again_at_ms(recalled: Recalled, lags: TaskLags, plan: StreamsPlan, now_ms: int) -> int | None:
    """When the threads shall all join again (epoch ms), so that a process that came back a moment ago can say what it
    has by now; None where nothing waits for it. Each time it is given longer, until it counts as slow."""
    away_ms = now_ms - recalled.restarted_ms
    process, task = recalled.trusted // max(1, lags.tasks), recalled.trusted % max(1, lags.tasks)
    waited_for = [away_ms[process[plan.active[task] == process]]]
    if plan.probing and len(plan.standby_task):
        back = np.flatnonzero(away_ms[plan.standby_process] <= RETURNING_MS)
        late = lags.at(plan.standby_task[back], plan.standby_process[back]) > lags.acceptable_lag
        waited_for.append(away_ms[plan.standby_process[back[late]]])
    ages = np.concatenate(waited_for)
    return now_ms + max(ASK_MS, int(ages.min()) // 2) if len(ages) else None


def _reported(view: StreamsView) -> LongArray:
    """Codes of what processes said that they have, ascending."""
    process = np.repeat(np.arange(view.size, dtype=np.int64), np.diff(view.report_first))
    usable = has_state(view.report_lag, view.tasks.end_sum[view.report_task])
    if len(view.recalled):
        usable &= ~view.recalled
    code: LongArray = (process * max(1, view.tasks.size) + view.report_task)[usable]
    return code


def _away(memory: StreamsMemory, process_map: ProcessMap, now_ms: int) -> dict[ProcessId, Held]:
    """Processes that went not long ago."""
    here = {process.process_id for process in process_map.processes}
    gone = {p: held for p, held in memory.held.items() if p not in here}
    dated = {p: held if held.went_ms is not None else replace(held, went_ms=now_ms) for p, held in gone.items()}
    return {p: held for p, held in dated.items() if now_ms - (held.went_ms or now_ms) <= RECALL_MS}
