"""Processes that are about to stop, or just left and are expected back: evacuated for a restart, or dead.

Until they are back, nothing changes. Such a process brings its copies back, and other processes would close the copies
that they made in the meantime, which stops all tasks of a thread
(docs/internals/client-quirks.md#java-streams-threads). Opening copies stops tasks as well, in the rebalance in which
others take over the tasks of a dead process. And a rebalance would have to wait for an evacuated process that is
closing its stores.

Which processes are present, absent or restarted, by what is remembered of them. `hidden_state` says what follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    IntArray,
    LongArray,
    among,
    lookup,
    task_code,
)
from bellwether_kafka.assignors.streams.application import StreamsView, TaskMap, has_state
from bellwether_kafka.assignors.streams.members.memory import ProcessRecord, StreamsMemory
from bellwether_kafka.assignors.streams.members.processes import DecodedStreams, ProcessMap
from bellwether_kafka.protocol.primitives import ProcessId

# Kafka's own session.timeout.ms: how long a group waits for a member that has closed. It starts anew when the process
# has left.
EXPECTED_MS = 45_000
# For processes that were not evacuated. A dead unit or container is restarted at once, and most are back by then; the
# others should be replaced soon.
DIED_MS = 20_000
ProcessRecords = Mapping[ProcessId, ProcessRecord]


def expected_copies(away: ProcessRecords, tasks: TaskMap, now_ms: int) -> tuple[IntArray, int | None]:
    """Returns, per task, how many copies are on processes that are expected back, and until when (epoch ms) the first
    of them is expected; None if there is none."""
    copies: IntArray = np.zeros(tasks.table.size, dtype=np.int32)
    until_ms: list[int] = []
    for record in away.values():
        back_ms = back_until_ms(record, now_ms)
        if back_ms is not None:
            copies[existing_tasks(tasks, record, record.ran | record.kept)] += 1
            until_ms.append(back_ms)
    return copies, min(until_ms, default=None)


def back_until_ms(record: ProcessRecord, now_ms: int) -> int | None:
    """Returns until when (epoch ms) a process that left is expected back; None if it is not."""
    if record.evacuated_ms is None:
        return None
    return _until_ms(record.went_ms, DIED_MS if record.died else EXPECTED_MS, now_ms)


def closes_until(here: Mapping[int, ProcessRecord], processes: int, now_ms: int) -> LongArray:
    """Returns, per process of this rebalance, until when (epoch ms) it is expected to stop because it has been
    evacuated; a time before `now_ms` if it has stayed for longer, `now_ms` if it is not expected to stop."""
    until_ms = np.full(processes, now_ms, dtype=np.int64)
    for process, record in here.items():
        since_ms = record.evacuated_ms
        if since_ms is not None and since_ms <= now_ms:
            until_ms[process] = _until_ms(since_ms, EXPECTED_MS, now_ms) or min(since_ms + EXPECTED_MS, now_ms - 1)
    return until_ms


def _until_ms(since_ms: int | None, wait_ms: int, now_ms: int) -> int | None:
    """Returns the end of the wait, None if it is over or never began. After a clock was set back, there is no wait."""
    if since_ms is None or not 0 <= now_ms - since_ms < wait_ms:
        return None
    return since_ms + wait_ms


def existing_tasks(tasks: TaskMap, record: ProcessRecord, marked: BoolArray) -> LongArray:
    """Returns the marked tasks that still exist."""
    task = tasks.index(record.subtopology, record.partition)[marked]
    existing: LongArray = task[task != NOBODY]
    return existing


REMEMBERED_MS = 600_000  # Streams' own state.cleanup.delay.ms: then it deletes state of tasks that it lacks
RETURNING_MS = 5_000  # how long Bellwether keeps polling a restarted process for its state
LONG_AGO = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class Restart:
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


def restarts_of(
    present: Mapping[int, ProcessRecord], continuing: set[int], view: StreamsView, tasks: TaskMap, now_ms: int
) -> list[Restart]:
    """Returns the restarts of the last REMEMBERED_MS, the earliest first."""
    since = {p: record.restarted_ms if p in continuing else now_ms for p, record in present.items()}
    # If the clock was set back, a restart must not last until the clock has caught up.
    at = [(min(at_ms, now_ms), p) for p, at_ms in since.items() if at_ms is not None]
    recent = sorted((at_ms, p) for at_ms, p in at if now_ms - at_ms <= REMEMBERED_MS)
    reported = reported_state(view) if recent else np.zeros(0, dtype=np.int64)
    made = []
    for at_ms, p in recent:
        task = tasks.index(present[p].subtopology, present[p].partition)
        stateful = lookup(view.tasks.stateful, task, False)
        sums_reported = among(task_code(p, task, view.tasks.size), reported)
        made.append(Restart(p, at_ms, p in continuing, present[p], task, stateful, sums_reported))
    return made


def reported_state(view: StreamsView) -> LongArray:
    """Returns codes of the state that processes themselves reported, ascending."""
    usable = has_state(view.report_lag, view.tasks.end_sum[view.report.values])
    if len(view.report_hidden):
        usable &= ~view.report_hidden
    return view.report.codes(view.tasks.size)[usable]


def resumed_processes(view: StreamsView, restarts: Sequence[Restart], now_ms: int) -> BoolArray:
    resumed = np.zeros(view.size, dtype=np.bool_)
    resumed[[r.process for r in restarts if r.record.evacuated_ms is not None and now_ms - r.at_ms <= RETURNING_MS]] = (
        True
    )
    return resumed


def restart_times_ms(view: StreamsView, restarts: Sequence[Restart]) -> LongArray:
    at_ms = np.full(view.size, LONG_AGO, dtype=np.int64)
    for restart in restarts:
        at_ms[restart.process] = restart.at_ms
    return at_ms


def ran_before_restart_of(view: StreamsView, restarts: Sequence[Restart]) -> IntArray:
    owner: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    for restart in restarts:
        ran = restart.task[restart.ran]
        owner[ran[owner[ran] == NOBODY]] = restart.process  # the first to restart ran it before others filled in
    return owner


def present_records(memory: StreamsMemory, process_map: ProcessMap, now_ms: int) -> dict[int, ProcessRecord]:
    """Returns the records of present processes, except for those absent for so long that Streams has deleted their
    state."""
    records = [(p, memory.records.get(process.process_id)) for p, process in enumerate(process_map.processes)]
    return {
        p: _returned(record, now_ms) for p, record in records if record is not None and not _too_old(record, now_ms)
    }


def _returned(record: ProcessRecord, now_ms: int) -> ProcessRecord:
    """Drops the resumption of a process that died and is back late: it has been replaced, and warms up like others."""
    return replace(record, evacuated_ms=None) if record.died and back_until_ms(record, now_ms) is None else record


def away_records(memory: StreamsMemory, process_map: ProcessMap, now_ms: int, *, standbys: bool) -> ProcessRecords:
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


def continuing_processes(memory: StreamsMemory, decoded: DecodedStreams, process_map: ProcessMap) -> set[int]:
    """Returns the processes of which a thread took part in the last plan."""
    before = {m.member_id for m in memory.plan.members}
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    return {process for row, process in rows if decoded.members[row].member_id in before}
