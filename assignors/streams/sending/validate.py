"""Checks that hold for every valid Streams plan and the bytes that carry it. Tests use them, and each decision.

No findings mean a valid plan. Checks are array operations; texts are only built for errors.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, lookup, ordinals
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap, ThreadPlan
from bellwether_kafka.assignors.streams.members import DecodedStreams, ProcessMap
from bellwether_kafka.assignors.streams.sending.encode import Outgoing, flats_by_task
from bellwether_kafka.protocol.bulk import owner_of, read_assignments
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import ProtocolError, TaskId, TopicPartition

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
    reads = _Reads(tasks)
    sent: list[_Sent] = []
    for row, data in enumerate(read_assignments(blobs).user_data):
        try:
            sent.append(reads.back(data or b""))
        except ProtocolError as error:
            return (f"the userData for {decoded.members[row].member_id} does not read back: {error}",)
    findings = (*_parallel(owner, tasks, sent), *_standbys(out, sent), *_rest(out, sent))
    return findings or tuple(_unsubscribed(decoded, tasks, owner, out))


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


class _Sent(NamedTuple):
    """What one member is sent: tasks (NOBODY for what is none of the application), everything else, and what is wrong
    with the partitions of a standby task, "" for nothing."""

    active: LongArray
    standby: LongArray
    rest: AssignmentInfo
    wrong: str


class _Reads:
    """Reads what members are sent, in which every byte must have its place. What is beside the tasks is equal for most
    members, and read once."""

    def __init__(self, tasks: TaskMap) -> None:
        self._tasks = tasks
        flats = flats_by_task(tasks)
        self._flats, self._first = flats.values.tolist(), flats.first.tolist()
        self._topic_of, self._partition = tasks.cluster.topic_of().tolist(), ordinals(tasks.cluster.counts).tolist()
        self._rest: dict[bytes, AssignmentInfo] = {}

    def back(self, data: bytes) -> _Sent:
        active, standby, bare = AssignmentInfo.read_tasks(data)
        if bare not in self._rest:
            self._rest[bare] = AssignmentInfo.decode(bare, exactly=True)
        kept = self._index([task for task, _ in standby])
        pairs = zip(kept.tolist(), standby, strict=True)
        wrong = next((finding for task, (_, given) in pairs if (finding := self._wrong(task, given))), "")
        return _Sent(self._index(active), kept, self._rest[bare], wrong)

    def _index(self, ids: Iterable[TaskId]) -> LongArray:
        rows = [(NOBODY, NOBODY) if task.topology else task[:2] for task in ids]
        pairs = np.array(rows, dtype=np.int32).reshape(-1, 2)
        return self._tasks.index(pairs[:, 0], pairs[:, 1])

    def _wrong(self, task: int, given: Sequence[TopicPartition]) -> str:
        if task == NOBODY:
            return ""
        topics, mine = self._tasks.cluster.topics, self._flats[self._first[task] : self._first[task + 1]]
        reads = [(topics[self._topic_of[flat]], self._partition[flat]) for flat in mine]
        if list(given) == reads:
            return ""
        if set(given) <= set(reads):
            return "a standby task is not sent with all its partitions"
        return "a standby task is sent with a partition that it does not read"


def _parallel(owner: IntArray, tasks: TaskMap, sent: Sequence[_Sent]) -> Iterator[str]:
    """Checks that a member's active tasks are parallel to its partitions sorted by topic and partition."""
    owned = np.flatnonzero(owner != NOBODY)
    ordered = owned[np.argsort(owner[owned], kind="stable")]
    if [len(of.active) for of in sent] != np.bincount(owner[owned], minlength=len(sent)).tolist():
        yield "a member has not one active task for each of its partitions"
    elif not np.array_equal(np.concatenate([ordered[:0], *(of.active for of in sent)]), tasks.task_of[ordered]):
        yield "the active tasks of a member are not in the order of its partitions"


def _standbys(out: Outgoing, sent: Sequence[_Sent]) -> Iterator[str]:
    """Checks that the standbys are the planned ones, each with exactly the partitions that its task reads."""
    task = np.concatenate([np.zeros(0, dtype=np.int64), *(of.standby for of in sent)])
    row = np.repeat(np.arange(len(sent)), [len(of.standby) for of in sent])
    if not np.array_equal(row, out.standby_row) or not np.array_equal(task, out.standby_task):
        yield "the standby tasks are not those of the plan"
    yield from [of.wrong for of in sent if of.wrong][:1]


def _rest(out: Outgoing, sent: Sequence[_Sent]) -> Iterator[str]:
    odd = {(of.rest.version, of.rest.error_code) for of in sent} - {(out.version, 0)}
    if odd:
        yield f"userData has version {max(odd)[0]} where {out.version} was meant, or an error code"
    if out.version >= 7 and [of.rest.next_rebalance_ms for of in sent] != out.next_rebalance_ms.tolist():
        yield "the times of the next rebalance are not those that were meant"


def _unsubscribed(decoded: DecodedStreams, tasks: TaskMap, owner: IntArray, out: Outgoing) -> Iterator[str]:
    """Finds members that get a topic to which they do not subscribe; they would ignore everything and rejoin
    endlessly."""
    allowed, owned, flats = _subscriptions(decoded, tasks), np.flatnonzero(owner != NOBODY), flats_by_task(tasks)
    sizes = np.diff(flats.first)[out.standby_task]
    copied = flats.values[np.repeat(flats.first[out.standby_task], sizes) + ordinals(sizes)]
    rows = np.concatenate([owner[owned], np.repeat(out.standby_row, sizes)])
    topics = tasks.cluster.topic_of()[np.concatenate([owned, copied])]
    for k in np.flatnonzero(~allowed[decoded.columns.topic_list[rows], topics])[:1].tolist():
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
