"""Simulates a change to a Streams application, and the rebalances until the group is at rest. Pure.

Members rejoin as real ones would: a thread runs what it was sent, and its standbys have caught up by the next probing
rebalance. So the number of rebalances is a minimum; slow restoring adds more. Nothing is written to changelogs in the
meantime, and state that a process no longer has is gone.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, EndOffsets
from bellwether_kafka.assignors.streams.decide import STOCK, Assignors, decide_streams
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.task_plan import TaskPlan
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TaskId, TopicPartition

REBALANCES_MAX = 200
FIRST = 1  # the generation of what members hold before the change
AT_ONCE_MS = 1_000
NEW_PROCESS = 0x6265_6C6C  # upper half of the ids of simulated processes
CopyKey = tuple[ProcessId, TaskId]


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """The present tasks of one thread."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StreamsRebalance:
    """One simulated rebalance. `restored` counts records that copies of tasks must read to catch up; `copies` are the
    tasks of these copies, each as often as it is restored. `probing`: the next rebalance comes only after the probing
    interval."""

    decision: shared.Decision[TaskPlan]
    restored: int
    copies: tuple[TaskId, ...]

    @property
    def probing(self) -> bool:
        return self.decision.probing_at_ms is not None and not self.decision.followup


@dataclass(frozen=True, slots=True)
class _Thread:
    member_id: str
    instance_id: str | None
    subscription: messages.ConsumerProtocolSubscription
    info: messages.SubscriptionInfo
    owned: tuple[TopicPartition, ...] = ()
    sums: tuple[tuple[TaskId, int], ...] = ()
    configured_rack: str | None = None
    leader_only: bool = False

    @property
    def rack(self) -> str | None:
        return self.subscription.rack_id or self.configured_rack

    def joined(self, generation: int) -> shared.RawMember:
        """Returns its JoinGroup bytes after that generation."""
        info = replace(self.info, task_offset_sums=self.sums, unique_field=generation % 128)
        subscription = replace(
            self.subscription,
            version=3,
            user_data=info.encode(),
            owned_partitions=tuple(sorted(self.owned)),
            generation_id=generation,
        )
        return shared.RawMember(
            self.member_id, self.instance_id, subscription.encode(), self.configured_rack, self.leader_only
        )


def rebalances_of_tasks(
    present: shared.Decision[TaskPlan],
    tasks_by_member: Mapping[str, HeldTasks],
    change: shared.Change,
    policy: str,
    assignors: Assignors = STOCK,
) -> tuple[StreamsRebalance, ...]:
    """Returns the rebalances that the change causes, until one leaves nothing to do or there are REBALANCES_MAX of
    them. `present` is a decision on the application as it is, `tasks_by_member` what its threads have. Raises
    WhatIfError."""
    if not present.plan.lags_known:
        raise shared.WhatIfError("The ends of changelogs cannot be read, so it is not known what must be restored.")
    if change.topics:
        raise shared.WhatIfError(
            "The topics of an application cannot grow: its tasks and their state would no longer fit."
        )
    threads = _threads(present, tasks_by_member)
    memory = _memory(present, threads)
    threads = _changed(threads, change)
    made: list[StreamsRebalance] = []
    now_ms, generation, ends = present.decided_at_ms, FIRST, _ends(present)
    underway: AbstractSet[CopyKey] = set()
    while len(made) < REBALANCES_MAX:
        generation += 1
        members = tuple(thread.joined(generation - 1) for thread in threads)
        nobody: frozenset[str] = frozenset()
        raw = replace(present.raw, generation=generation, members=members, own_member_ids=nobody, resting=False)
        topology, configs = present.plan.topology, present.plan.configs
        decision = decide_streams(
            raw, present.cluster, ends, topology, memory, configs, policy, now_ms, present.seed, assignors=assignors
        )
        if isinstance(decision, shared.Refusal):
            raise shared.WhatIfError(f"It could not be led then: {decision.reason}.")
        restoring = _restoring(decision)
        fresh = restoring.keys() - underway
        made.append(
            StreamsRebalance(decision, sum(restoring[copy] for copy in fresh), tuple(task for _, task in fresh))
        )
        if not decision.followup and decision.probing_at_ms is None:
            break
        memory, underway = decision.plan.memory, restoring.keys() if decision.followup else set()
        threads = tuple(_after(thread, decision, underway) for thread in threads)
        now_ms += AT_ONCE_MS if decision.followup else configs.probing_rebalance_interval_ms
    return tuple(made)


def next_rebalance(
    present: shared.Decision[TaskPlan], policy: str, now_ms: int, assignors: Assignors = STOCK
) -> shared.Decision[TaskPlan] | None:
    """Returns what a rebalance of the same members would decide now. All have what `present` sent them, and all copies
    have caught up. None if that is not known, or if the application could not be led."""
    if not present.plan.lags_known or present.plan.shutdown:
        return None
    threads, generation = _threads(present, {}), present.raw.generation
    if len(threads) < len(present.raw.others):
        return None
    members = tuple(_after(thread, present, frozenset()).joined(generation) for thread in threads)
    nobody: frozenset[str] = frozenset()
    decision = decide_streams(
        replace(present.raw, generation=generation + 1, members=members, own_member_ids=nobody, resting=False),
        present.cluster,
        _ends(present),
        present.plan.topology,
        present.plan.memory,
        present.plan.configs,
        policy,
        now_ms,
        present.seed,
        assignors=assignors,
    )
    return None if isinstance(decision, shared.Refusal) else decision


def _threads(present: shared.Decision[TaskPlan], tasks_by_member: Mapping[str, HeldTasks]) -> tuple[_Thread, ...]:
    table = present.plan.view.tasks
    end = {table.task_id(t): int(table.end_sum[t]) for t in range(table.size)}
    readable = []
    for member in present.raw.others:
        try:
            subscription = messages.ConsumerProtocolSubscription.decode(member.metadata)
            info = messages.SubscriptionInfo.decode(subscription.user_data or b"")
        except RemoteProtocolError:
            continue
        if info.future:
            continue
        has = tasks_by_member.get(member.member_id, HeldTasks())
        thread = _Thread(
            member_id=member.member_id,
            instance_id=member.instance_id,
            subscription=subscription,
            info=info,
            configured_rack=member.rack,
            leader_only=member.leader_only,
        )
        readable.append(_holding(thread, present, has, end))
    return tuple(readable)


def _holding(thread: _Thread, present: shared.Decision[TaskPlan], has: HeldTasks, end: Mapping[TaskId, int]) -> _Thread:
    stateful = present.plan.topology.stateful
    active = tuple((task, LATEST_OFFSET) for task in has.active if task.subtopology in stateful)
    standby = tuple((task, end[task]) for task in has.standby if task in end)
    wanted = set(has.active)
    return replace(thread, owned=_partitions(present, wanted), sums=active + standby)


def _partitions(present: shared.Decision[TaskPlan], wanted: set[TaskId]) -> tuple[TopicPartition, ...]:
    """Returns the partitions that the tasks read."""
    table, task_of = present.plan.view.tasks, present.plan.tasks.task_of
    mine = np.array([table.task_id(t) in wanted for t in range(table.size)] + [False], dtype=np.bool_)
    return tuple(present.plan.tasks.cluster.name(flat) for flat in np.flatnonzero(mine[task_of]).tolist())


def _memory(present: shared.Decision[TaskPlan], threads: Sequence[_Thread]) -> StreamsMemory:
    """Returns a memory as if a leader had just delivered what threads have."""
    delivered = present.plan.memory
    cluster = present.plan.tasks.cluster
    position = {key: i for i, key in enumerate(delivered.plan.members.keys)}
    owner = np.full(cluster.partition_total, shared.NOBODY, dtype=np.int32)
    for thread in threads:
        row = position.get(thread.instance_id or thread.member_id, shared.NOBODY)
        for topic, partition in thread.owned:
            flat = cluster.flat(topic, partition)
            if flat is not None:
                owner[flat] = row
    plan = shared.Memory.of(FIRST, cluster, owner, delivered.plan.members)
    return replace(delivered, plan=plan, led=True, destinations=None)


def _ends(present: shared.Decision[TaskPlan]) -> EndOffsets:
    """Returns end offsets that add up to the sums of the present decision."""
    table = present.plan.view.tasks
    ends: dict[str, shared.LongArray] = {}
    for subtopology in table.subtopologies:
        total = table.end_sum[table.subtopology == subtopology.id]
        for number, topic in enumerate(subtopology.changelogs):
            ends[topic] = total if number == 0 else np.zeros_like(total)
    return EndOffsets(ends, present.decided_at_ms)


def _changed(threads: Sequence[_Thread], change: shared.Change) -> tuple[_Thread, ...]:
    """Returns the threads after the change. `without_members` may name a thread, or a process with all its threads."""
    names = {name for t in threads for name in (t.member_id, str(t.info.process_id))}
    for name in change.without_members:
        if name not in names:
            present = ", ".join(sorted({str(t.info.process_id) for t in threads}))
            raise shared.WhatIfError(f"The application has no thread or process {name}; its processes are {present}.")
    racks = {t.rack for t in threads}
    for rack in change.without_racks:
        if rack not in racks:
            present = ", ".join(sorted(r for r in racks if r)) or "none"
            raise shared.WhatIfError(f"No process of the application is in rack {rack}; their racks are {present}.")
    left = tuple(
        t
        for t in threads
        if not {t.member_id, str(t.info.process_id)} & set(change.without_members)
        and t.rack not in change.without_racks
    )
    left += _new(threads, change.new_members)
    if not left:
        raise shared.WhatIfError("Nobody would be left in the application.")
    return left


def _new(threads: Sequence[_Thread], racks: Sequence[str]) -> tuple[_Thread, ...]:
    """Returns new processes with as many threads as the first one, and without state."""
    if not racks:
        return ()
    if not threads:
        raise shared.WhatIfError("No thread can be read, so new ones cannot be made after its model.")
    model = threads[0]
    size = sum(t.info.process_id == model.info.process_id for t in threads)
    made = []
    for number, rack in enumerate(racks, 1):
        info = replace(model.info, process_id=ProcessId(NEW_PROCESS, number), user_end_point=None)
        subscription = replace(model.subscription, rack_id=rack or None)
        made += [_Thread(f"new-{number}-{thread}", None, subscription, info) for thread in range(1, size + 1)]
    return tuple(made)


def _after(thread: _Thread, decision: shared.Decision[TaskPlan], restoring: AbstractSet[CopyKey]) -> _Thread:
    """Returns the thread as it rejoins. Copies that still restore have no state yet."""
    active, standby = decision.plan.tasks_of(thread.member_id)
    table, process = decision.plan.view.tasks, thread.info.process_id
    end = {table.task_id(t): int(table.end_sum[t]) for t in range(table.size)}
    reached = {task: 0 if (process, task) in restoring else total for task, total in end.items()}
    return _holding(thread, decision, HeldTasks(active, standby), reached)


def _restoring(decision: shared.Decision[TaskPlan]) -> dict[CopyKey, int]:
    """Returns the stateful copies that are missing or too far behind to count as caught up, with the records that they
    must read."""
    view, plan, out = decision.plan.view, decision.plan, decision.plan.out
    table, total = view.tasks, view.tasks.size
    sent = np.flatnonzero(table.stateful & (out.holder != shared.NOBODY))
    actives = shared.task_code(plan.target.active[sent], sent, total)
    standbys = shared.task_code(plan.target.standby_process, plan.target.standby_task, total)
    reported = view.report.codes(total)
    near = view.report_lag <= decision.plan.configs.acceptable_recovery_lag
    wanted = np.unique(np.concatenate([actives, standbys]))
    missing: dict[CopyKey, int] = {}
    for code in wanted[~shared.among(wanted, reported[near])].tolist():
        process, task = divmod(code, total)
        if table.end_sum[task] > 0:
            missing[view.processes[process].process_id, table.task_id(task)] = int(table.end_sum[task])
    return missing
