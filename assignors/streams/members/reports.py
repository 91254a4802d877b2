"""Which process runs which task now: the partitions that threads own, without impossible claims.

A thread owns what it claims, if `shared.check_claims` accepts it, as for consumers. A thread that cannot have claimed
anything (static and not rejoined, or unreadable) owns what was last delivered to it.

A consumer reports a generation as its own from its JoinGroup on. If the next rebalance begins before it receives that
generation's plan, it joins again with what it had before, and runs that. (The Java leader ignores generations, so it
believes such claims for ever: docs/internals/streams.md#reading-the-members.)

Converts a decoded Streams group to a StreamsView in bulk: 2,000 processes and 100,000 tasks are array work.

The rules are in docs/internals/streams.md#reading-the-members and docs/internals/streams.md#previous-tasks.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    ClaimKind,
    Claims,
    Delivered,
    IntArray,
    LongArray,
    Ragged,
    Refused,
    among,
    check_claims,
    digest,
    distinct,
    lookup,
    task_code,
)
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, StreamsView, TaskMap, lags
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory, owned_partitions
from bellwether_kafka.assignors.streams.members.processes import DecodedStreams, ProcessMap

_UNCLAIMED = -2


@dataclass(frozen=True, slots=True, eq=False)
class ThreadClaims:
    """Claims sorted by member row, then flat partition, without duplicates. `generation` is per member. `silent` marks
    members that did not join in this rebalance; `refused` are the claims that are not believed. `asked` is per flat
    partition: how many plans in a row will have asked its claimant to give it up, if this plan asks; 0 if the claimant
    is silent."""

    member: LongArray
    flat: LongArray
    generation: IntArray
    silent: BoolArray
    asked: IntArray
    refused: Refused = field(default_factory=Refused.none)

    def tasks(self, tasks: TaskMap) -> IntArray:
        """Returns the task of each claim, NOBODY for partitions that no task reads."""
        return tasks.task_of[self.flat]


def read_claims(decoded: DecodedStreams, tasks: TaskMap, memory: StreamsMemory) -> ThreadClaims:
    """Returns the claims of all members in the coordinates of `tasks.cluster`."""
    columns, cluster, raw = decoded.columns, tasks.cluster, decoded.raw
    keys = [m.key for m in decoded.members]
    remembered = memory.plan.owner_in(cluster, keys)
    silent = _silent(decoded, memory)
    member, flat = owned_partitions(columns, cluster)
    reporting = ~silent[member]
    claims = Claims(member[reporting], flat[reporting], columns.generation)
    delivered = replace(
        Delivered.of(memory.plan, cluster, keys, remembered),
        holder=memory.owned.owner_in(cluster, keys),
        asked=memory.owned.asked_in(cluster),
    )
    checked = check_claims(claims, delivered, ClaimKind.CONSUMED, generation=raw.generation, resting=raw.resting)
    member, flat = claims.member[checked.kept], claims.flat[checked.kept]
    asked = np.zeros(cluster.partition_total, dtype=np.int32)
    asked[flat] = checked.asked[checked.kept]
    generation = checked.generation.copy()
    given: LongArray = np.flatnonzero((remembered != NOBODY) & silent[remembered] if silent.any() else False)
    member = np.concatenate([member, remembered[given]]).astype(np.int64)
    flat = np.concatenate([flat, given]).astype(np.int64)
    generation[silent] = memory.generation
    total = max(1, cluster.partition_total)
    member, flat = np.divmod(distinct(member * total + flat), total)
    return ThreadClaims(member, flat, generation, silent, asked, checked.refused)


def still_held(tasks: TaskMap, claims: ThreadClaims, holder: IntArray) -> BoolArray:
    """Marks tasks that must not be sent yet because another member still owns one of their partitions
    (docs/internals/streams.md#withholding). `holder[task]` is the row of the member that gets it. That member's own
    claim to a partition wins unless another claim has a later generation."""
    result = np.zeros(tasks.table.size, dtype=np.bool_)
    task = claims.tasks(tasks)
    inside = task != NOBODY
    member, flat, task = claims.member[inside], claims.flat[inside], task[inside]
    other = holder[task] != member
    if not other.any():
        return result
    generation = claims.generation[member]
    theirs = np.full(tasks.cluster.partition_total, _UNCLAIMED, dtype=np.int64)
    mine = np.full(tasks.cluster.partition_total, _UNCLAIMED, dtype=np.int64)
    np.maximum.at(theirs, flat[other], generation[other])
    mine[flat[~other]] = generation[~other]
    contested: LongArray = np.flatnonzero(theirs > mine)
    result[tasks.task_of[contested]] = True
    result[holder == NOBODY] = False
    return result


def _silent(decoded: DecodedStreams, memory: StreamsMemory) -> BoolArray:
    """Marks static members whose bytes did not change (joining changes the unique field), all remembered members of a
    resting group, and unreadable members."""
    silent, resting = np.zeros(len(decoded.members), dtype=np.bool_), decoded.raw.resting
    for m, raw in enumerate(decoded.members):
        if not (raw.instance_id or resting):
            continue
        last = memory.plan.find(raw.key)
        record = memory.threads.get(raw.key)
        same = last is not None and last.member_id == raw.member_id
        silent[m] = same and (resting or (record is not None and record.digest == digest(raw.metadata)))
    silent[list(decoded.columns.errors)] = True
    return silent


# Before this version "previous active" does not mean running.
_RUNNING_SINCE = 7
_LISTED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """What members report of tasks: the member's row, the task index (NOBODY: not in the topology), the offset sum as
    sent."""

    member: LongArray
    task: LongArray
    offset_sum: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class TimestampedView:
    """A view with the times of its reports: `report_at_ms` (epoch ms) is parallel to the values of `view.report`."""

    view: StreamsView
    report_at_ms: LongArray
    warnings: tuple[str, ...] = ()


def read_reports(decoded: DecodedStreams, tasks: TaskMap) -> Reports:
    """Returns all offset sums of the group, in the order of the members."""
    infos = decoded.infos
    member = np.repeat(np.arange(len(decoded.members)), np.diff(infos.sum_first))
    task = tasks.index(infos.sum_subtopology, infos.sum_partition)
    return Reports(member, task, infos.sum_value)


def reports_at_rest(
    decoded: DecodedStreams, process_map: ProcessMap, tasks: TaskMap, claims: ThreadClaims, memory: StreamsMemory
) -> Reports:
    """Returns what members would report if they rejoined now: what they reported when they joined, and what they have
    been given since. A copy that no member has reported yet has an unknown size."""
    reports, table = read_reports(decoded, tasks), tasks.table
    silent, process_of = claims.silent, lookup(process_map.process, process_map.thread, NOBODY)
    owned = claims.tasks(tasks)
    runs = silent[claims.member] & lookup(table.stateful, owned, False) & (process_of[claims.member] != NOBODY)
    code, first = np.unique(task_code(process_of[claims.member[runs]], owned[runs], table.size), return_index=True)
    runner = claims.member[runs][first]
    # Other threads of the process cannot report a task that this one runs, because its directory is locked.
    of_tasks = (reports.task != NOBODY) & (process_of[reports.member] != NOBODY)
    elsewhere = of_tasks & among(task_code(process_of[reports.member], reports.task, table.size), code)
    kept = ~(silent[reports.member] & elsewhere)
    ended = silent[reports.member] & (reports.offset_sum == LATEST_OFFSET)
    sums = np.where(ended, UNKNOWN_OFFSET_SUM, reports.offset_sum)[kept]
    reported = task_code(process_of[reports.member[kept & of_tasks]], reports.task[kept & of_tasks], table.size)
    member, task = _copies_given(process_map, tasks, memory, np.concatenate([code, reported]), silent)
    return Reports(
        member=np.concatenate([reports.member[kept], runner, member]),
        task=np.concatenate([reports.task[kept], code % max(1, table.size), task]),
        offset_sum=np.concatenate(
            [sums, np.full(len(code), LATEST_OFFSET), np.full(len(member), UNKNOWN_OFFSET_SUM)]
        ).astype(np.int64),
    )


def _copies_given(
    process_map: ProcessMap, tasks: TaskMap, memory: StreamsMemory, reported: LongArray, silent: BoolArray
) -> tuple[LongArray, LongArray]:
    """Returns (member, task) of stateful tasks that memory has on a process and that are not among the `reported`
    codes."""
    first = np.searchsorted(process_map.process, np.arange(len(process_map.processes)))
    members: list[LongArray] = [np.zeros(0, dtype=np.int64)]
    tasks_given: list[LongArray] = [np.zeros(0, dtype=np.int64)]
    for p, process in enumerate(process_map.processes):
        record, row = memory.records.get(process.process_id), int(process_map.member[first[p]])
        if record is None or not silent[row]:
            continue
        task = tasks.index(record.subtopology, record.partition)
        task = task[(task != NOBODY) & lookup(tasks.table.stateful, task, False)]
        task = task[~among(task_code(np.full(len(task), p), task, tasks.table.size), distinct(reported))]
        members.append(np.full(len(task), row, dtype=np.int64))
        tasks_given.append(task.astype(np.int64))
    return np.concatenate(members), np.concatenate(tasks_given)


def streams_view(
    decoded: DecodedStreams,
    process_map: ProcessMap,
    tasks: TaskMap,
    claims: ThreadClaims,
    reports: Reports,
    memory: StreamsMemory,
    now_ms: int,
    *,
    lags_known: bool,
) -> TimestampedView:
    """Returns the application in the coordinates of `tasks` and `process_map`."""
    table = tasks.table
    usable = (reports.task != NOBODY) & (process_map.thread[reports.member] >= 0)
    thread = process_map.thread[reports.member[usable]]
    task, offset_sum = reports.task[usable], reports.offset_sum[usable]
    stateful = table.stateful[task]
    latest = _latest(process_map.process[thread], task, table.size)
    process, task_of, sums = process_map.process[thread][latest], task[latest], offset_sum[latest]
    kept = stateful[latest]
    end = table.end_sum[task_of[kept]]
    joined = np.array([memory.joined_at_ms(m.key, m.metadata, now_ms) for m in decoded.members], dtype=np.int64)
    active, standby = _previous(process_map, tasks, claims, process, task_of, sums)
    size = len(process_map.processes)
    own_thread, own_task = thread[stateful], task[stateful]
    pairs = distinct(task_code(own_thread, own_task, table.size))
    view = StreamsView(
        group_id=decoded.raw.group_id,
        generation=decoded.raw.generation,
        tasks=table,
        processes=process_map.processes,
        capacity=np.array([p.capacity for p in process_map.processes], dtype=np.int32),
        rack=np.array(
            [tasks.cluster.rack_code(p.rack, leader_only=p.leader_only) for p in process_map.processes], dtype=np.int32
        ),
        report=Ragged.of(process[kept], task_of[kept], size),
        report_lag=lags(sums[kept], end, ends_known=lags_known),
        previous_active=Ragged.of_codes(active, table.size, size),
        previous_standby=Ragged.of_codes(standby, table.size, size),
        lags_known=lags_known,
        thread_tasks=Ragged.of_codes(pairs, table.size, len(process_map.member)),
        running_on=_running_on(process_map, tasks, claims),
        now_ms=now_ms,
        cluster=tasks.cluster,
    )
    far = np.flatnonzero((sums[kept] > end) & lags_known)
    reporter = process_map.member[thread][latest][kept]
    return TimestampedView(view, joined[reporter], _beyond(view, far))


def contradictions(
    decoded: DecodedStreams, tasks: TaskMap, claims: ThreadClaims, reports: Reports, memory: StreamsMemory
) -> tuple[str, ...]:
    """Returns sentence parts on running tasks that contradict the topology; () if there are none.

    A running task (sum -2) must be in the topology and stateful, and its thread must own partitions of it. State on
    disk of tasks that the topology lacks is ignored, because it may be old. So are members that are new in a group that
    Bellwether leads: a thread closes its tasks before it joins under a new id, so it runs nothing, whatever it reports.
    Members with refused claims are ignored too.
    """
    reports_running = (decoded.infos.version >= _RUNNING_SINCE) & ~claims.silent & ~decoded.infos.future
    if memory.led:
        reports_running &= np.array([m.key in memory.threads for m in decoded.members], dtype=np.bool_)
    reports_running[list(claims.refused.reasons)] = False
    running: LongArray = np.flatnonzero((reports.offset_sum == LATEST_OFFSET) & reports_running[reports.member])
    member, task = reports.member[running], reports.task[running]
    infos, table = decoded.infos, tasks.table
    ids = np.stack([infos.sum_subtopology[running], infos.sum_partition[running]], axis=1)
    unknown = task == NOBODY
    stateless = ~unknown & ~lookup(table.stateful, task, False)
    claimed = claims.tasks(tasks)
    inside = claimed != NOBODY
    owned = task_code(claims.member[inside], claimed[inside], table.size)
    owns = among(task_code(member, task, table.size), distinct(owned))
    claimant = np.zeros(len(decoded.members), dtype=np.bool_)
    claimant[claims.member] = True
    foreign = ~unknown & ~stateless & ~owns & claimant[member]
    texts = (
        (unknown, "which is not in the topology"),
        (stateless, "which has no changelog in the topology"),
        (foreign, "but owns none of the partitions that this task reads in the topology"),
    )
    return tuple(
        f"member {decoded.members[int(member[i])].member_id} runs task {ids[i, 0]}_{ids[i, 1]} with state, {text}"
        for wrong, text in texts
        for i in np.flatnonzero(wrong)[:_LISTED].tolist()
    )


def _latest(process: IntArray, task: LongArray, total: int) -> LongArray:
    """Returns the positions of the last report on each (process, task), ordered by process, then task."""
    key = task_code(process, task, total)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    positions: LongArray = order[last]
    return positions


def _previous(
    process_map: ProcessMap, tasks: TaskMap, claims: ThreadClaims, process: IntArray, task: LongArray, sums: LongArray
) -> tuple[LongArray, LongArray]:
    """Returns two arrays of ascending codes (process * tasks + task): what each process ran, and what it only kept."""
    total = tasks.table.size
    thread = process_map.thread[claims.member]
    owned = claims.tasks(tasks)
    inside = (thread >= 0) & (owned != NOBODY)
    of_claims = task_code(process_map.process[thread[inside]], owned[inside], total)
    reported = task_code(process, task, total)
    runs = sums == LATEST_OFFSET
    active, others = distinct(np.concatenate([of_claims, reported[runs]])), reported[~runs]
    return active, others[~among(others, active)]


def _running_on(process_map: ProcessMap, tasks: TaskMap, claims: ThreadClaims) -> IntArray:
    """Returns the thread that runs each task now, by the latest claim to its partitions."""
    running = np.full(tasks.table.size, NOBODY, dtype=np.int32)
    task, thread = claims.tasks(tasks), process_map.thread[claims.member]
    inside = (task != NOBODY) & (thread >= 0)
    order = np.argsort(claims.generation[claims.member[inside]], kind="stable")
    running[task[inside][order]] = thread[inside][order]
    return running


def _beyond(view: StreamsView, far: LongArray) -> tuple[str, ...]:
    """Returns a warning about reports beyond the end offsets: a changelog is missing in the topology, or was wiped."""
    if not len(far):
        return ()
    process = view.processes[view.report.row[far[0]]].process_id
    first = f"task {view.tasks.task_id(int(view.report.values[far[0]]))} on {process}"
    return (
        f"{len(far)} reports are beyond the end of the changelogs, {first} for one: the topology may lack a changelog",
    )


def state_warnings(claims: ThreadClaims, decoded: DecodedStreams, trouble: str | None) -> list[str]:
    """Returns warnings about unknown lags, refused claims, and members that did not rejoin."""
    ids = [m.member_id for m in decoded.members]
    lines = [f"lags are not known, so tasks stay where they are: {trouble}"] if trouble else []
    lines += [f"member {ids[m]} {what}" for m, what in list(claims.refused.reasons.items())[:_LISTED]]
    silent = [ids[m] for m in np.flatnonzero(claims.silent)[:_LISTED].tolist()]
    if silent and not decoded.raw.resting:
        lines.append(f"members did not join again and count as owners of their last tasks: {', '.join(silent)}")
    return lines
