"""Checks that hold for every valid Streams plan and the bytes that carry it. Tests use them, and each decision.

No findings mean a valid plan. Checks are array operations; texts are only built for errors.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, distinct, lookup
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap, ThreadPlan
from bellwether_kafka.assignors.streams.members import DecodedStreams, ProcessMap
from bellwether_kafka.assignors.streams.sending.encode import Outgoing
from bellwether_kafka.protocol.bulk import AssignedColumns, owner_of, read_assigned, read_assignments
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import ProtocolError

MAX_FINDINGS = 10


def validate_plan(view: StreamsView, plan: StreamsPlan) -> tuple[str, ...]:
    """Checks an assignor's plan: every task has one active copy, and its standbys are on other processes, each once."""
    table = view.tasks
    if plan.active.shape != (table.size,):
        return (f"the plan has {plan.active.size} tasks, the application has {table.size}",)
    if not plan.standby_task.shape == plan.standby_process.shape == plan.warmup.shape:
        return ("the arrays of standbys have different lengths",)
    if (plan.active < NOBODY).any() or (plan.active >= view.size).any():
        return ("an active task is given to a process that is not there",)
    if _outside(plan.standby_task, table.size) or _outside(plan.standby_process, view.size):
        return ("a standby is of a task or on a process that is not there",)
    code = plan.standby_task.astype(np.int64) * max(1, view.size) + plan.standby_process
    twice = np.zeros(len(code), dtype=np.bool_)
    twice[1:] = code[1:] == code[:-1]
    if (code[1:] < code[:-1]).any():
        return ("standbys are not sorted by task and process",)
    beside = plan.active[plan.standby_task] == plan.standby_process
    stateless = ~table.stateful[plan.standby_task]
    return (
        *_tasks(view, np.flatnonzero(plan.active == NOBODY), "task {} runs nowhere"),
        *_tasks(view, plan.standby_task[twice], "task {} has two standbys on one process"),
        *_tasks(view, plan.standby_task[beside], "task {} has a standby beside its active copy"),
        *_tasks(view, plan.standby_task[stateless], "task {} has a standby but no state"),
    )


def validate_threads(
    view: StreamsView, plan: StreamsPlan, threads: ThreadPlan, process_map: ProcessMap
) -> tuple[str, ...]:
    """Checks that every copy is on a thread of the process that the plan has for it."""
    if threads.active.shape != plan.active.shape or threads.standby.shape != plan.standby_task.shape:
        return ("the plan on threads has another size than the plan",)
    count = len(process_map.member)
    if (threads.active < NOBODY).any() or (threads.active >= count).any() or _outside(threads.standby, count):
        return ("a task is given to a thread that is not there",)
    misplaced = lookup(process_map.process, threads.active, NOBODY) != plan.active
    standby_misplaced = process_map.process[threads.standby] != plan.standby_process
    return (
        *_tasks(view, np.flatnonzero(misplaced), "task {} is on a wrong thread"),
        *_tasks(view, plan.standby_task[standby_misplaced], "a standby of task {} is on a wrong thread"),
    )


def validate_bytes(decoded: DecodedStreams, tasks: TaskMap, out: Outgoing, blobs: Sequence[bytes]) -> tuple[str, ...]:
    """Checks that the bytes for the members contain exactly what `out` has, read as a Java thread reads them."""
    try:
        owner = owner_of(blobs, tasks.cluster.topics, tasks.cluster.first)
    except ProtocolError as error:
        return (f"the assignments do not read back: {error}",)
    expected = out.owner(tasks)
    if not np.array_equal(owner, expected):
        where = tasks.cluster.name(int(np.argmax(owner != expected)))
        return (f"{where.topic}-{where.partition} is sent to another member than planned",)
    columns = read_assigned(read_assignments(blobs).user_data)
    if columns.errors:
        row, reason = next(iter(columns.errors.items()))
        return (f"the userData for {decoded.members[row].member_id} does not read back: {reason}",)
    findings = (*_parallel(owner, tasks, columns), *_standbys(tasks, out, columns), *_rest(out, columns))
    return findings or tuple(_unsubscribed(decoded, tasks, owner, columns))


def validate_own(blob: bytes) -> tuple[str, ...]:
    """Checks that Bellwether's own member gets no work, in bytes that every client can read."""
    try:
        assignment = ConsumerProtocolAssignment.decode(blob)
        info = AssignmentInfo.decode(assignment.user_data or b"")
    except ProtocolError as error:
        return (f"Bellwether's own assignment does not read back: {error}",)
    return ("Bellwether's own member would get tasks",) if assignment.partitions or info != AssignmentInfo() else ()


def _outside(values: IntArray, limit: int) -> bool:
    return bool(len(values)) and not 0 <= int(values.min()) <= int(values.max()) < limit


def _tasks(view: StreamsView, tasks: IntArray | LongArray, text: str) -> Iterator[str]:
    for task in tasks[:MAX_FINDINGS].tolist():
        yield text.format(view.tasks.task_id(task))
    if len(tasks) > MAX_FINDINGS:
        yield f"and {len(tasks) - MAX_FINDINGS} more like the last one"


def _parallel(owner: IntArray, tasks: TaskMap, columns: AssignedColumns) -> Iterator[str]:
    """Checks that a member's active tasks are parallel to its partitions sorted by topic and partition."""
    owned = np.flatnonzero(owner != NOBODY)
    ordered = owned[np.argsort(owner[owned], kind="stable")]
    counts = np.bincount(owner[owned], minlength=len(columns.active_first) - 1)
    given = tasks.index(columns.active_subtopology, columns.active_partition)
    if not np.array_equal(np.diff(columns.active_first), counts):
        yield "a member has not one active task for each of its partitions"
    elif not np.array_equal(given, tasks.task_of[ordered]):
        yield "the active tasks of a member are not in the order of its partitions"


def _standbys(tasks: TaskMap, out: Outgoing, columns: AssignedColumns) -> Iterator[str]:
    """Checks that the standbys are the planned ones, each with exactly the partitions that its task reads."""
    task = tasks.index(columns.standby_subtopology, columns.standby_partition)
    if not np.array_equal(columns.standby_member, out.standby_row) or not np.array_equal(task, out.standby_task):
        yield "the standby tasks are not those of the plan"
        return
    index = np.array([tasks.cluster.index.get(name, NOBODY) for name in columns.topic_names], dtype=np.int64)
    topic = index[columns.pair_topic] if len(index) else np.zeros(0, dtype=np.int64)
    counts = tasks.cluster.counts[topic]
    real = (topic != NOBODY) & (columns.pair_partition >= 0) & (columns.pair_partition < counts)
    flat = np.where(real, tasks.cluster.first[topic] + columns.pair_partition, 0)
    if not real.all() or (len(flat) and (tasks.task_of[flat] != task[columns.pair_standby]).any()):
        yield "a standby task is sent with a partition that it does not read"
        return
    reads = np.bincount(tasks.task_of[tasks.task_of != NOBODY], minlength=tasks.table.size)
    pairs = columns.pair_standby.astype(np.int64) * max(1, len(tasks.task_of)) + flat
    if len(distinct(pairs)) != len(pairs) or not np.array_equal(
        np.bincount(columns.pair_standby, minlength=len(task)), reads[task]
    ):
        yield "a standby task is not sent with all its partitions"


def _rest(out: Outgoing, columns: AssignedColumns) -> Iterator[str]:
    versions = {(info.version, info.error_code) for info in columns.rest if info is not None}
    odd = versions - {(out.version, 0)}
    if odd:
        yield f"userData has version {max(odd)[0]} where {out.version} was meant, or an error code"
    if out.version >= 7:
        times = [info.next_rebalance_ms if info is not None else NOBODY for info in columns.rest]
        if times != out.next_rebalance_ms.tolist():
            yield "the times of the next rebalance are not those that were meant"


def _unsubscribed(decoded: DecodedStreams, tasks: TaskMap, owner: IntArray, columns: AssignedColumns) -> Iterator[str]:
    """Finds members that get a topic to which they do not subscribe; they would ignore everything and rejoin
    endlessly."""
    allowed = _subscriptions(decoded, tasks)
    topic_of = tasks.cluster.topic_of()
    owned = np.flatnonzero(owner != NOBODY)
    index = np.array([tasks.cluster.index[name] for name in columns.topic_names], dtype=np.int64)
    rows = np.concatenate([owner[owned], columns.standby_member[columns.pair_standby]])
    topics = np.concatenate([topic_of[owned], index[columns.pair_topic] if len(index) else ()]).astype(np.int64)
    wrong = np.flatnonzero(~allowed[decoded.columns.topic_list[rows], topics])
    for k in wrong[:1].tolist():
        member = decoded.members[int(rows[k])].member_id
        yield f"{member} gets topic {tasks.cluster.topics[int(topics[k])]}, which it does not subscribe to"


def _subscriptions(decoded: DecodedStreams, tasks: TaskMap) -> BoolArray:
    """Returns which topics may go to members with which topic list; the last row is for members whose list cannot be
    read."""
    lists = decoded.columns.topic_lists
    table = np.zeros((len(lists) + 1, len(tasks.cluster.topics)), dtype=np.bool_)
    table[-1] = True
    for row, names in enumerate(lists):
        table[row, [tasks.cluster.index[t] for t in names if t in tasks.cluster.index]] = True
    if tasks.topology.patterns:
        table[:, [i for i, t in enumerate(tasks.cluster.topics) if tasks.topology.found_by_members(t)]] = True
    return table
