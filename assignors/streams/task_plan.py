"""The plan part of a decision for a Streams application: tasks and the processes that run them or keep copies.

Reduces a decision whose bytes exceed the broker's limit by what members do not need.

Every thread gets the map of all hosts, with the same bytes, and a broker stores them all in one record of the group.
The maps only serve interactive queries, so they are left out before Bellwether gives up the group
(docs/internals/reliability.md#oversized-group-records).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import stages as streams_stages
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
    TaskMap,
    ThreadPlan,
    Topology,
)
from bellwether_kafka.assignors.streams.members import ProcessMap, StreamsMemory, decode_streams
from bellwether_kafka.assignors.streams.report import ID_CHARS, alternatives, report, short
from bellwether_kafka.assignors.streams.sending import (
    HostMaps,
    Outgoing,
    encode_assignments,
    validate_bytes,
    validate_own,
    validate_plan,
)
from bellwether_kafka.protocol.primitives import TaskId

WHILE_SUSPENDED = "while a process is emptied or expected back"
TASKS = shared.Words("streams", "task", "process", "processes", ("process ", "processes "), ID_CHARS)
NAMES_SHOWN = 4


@dataclass(frozen=True, eq=False)  # no slots: some values are computed on first use
class TaskPlan:
    """The plan of an application. `tasks` and `view` define the coordinates; `target` and `threads` have the placement.
    `temporary` are (row of `out`, task) standbys that only keep a store open until the task follows. `before[task]` is
    the process that runs it now. `report_at_ms` is parallel to the values of `view.report`. `joined` are the members in
    the row order of `out` and `refused`. `memory` is to be stored only after SyncGroup has succeeded. `shutdown`:
    members get the order to stop, and nothing is planned. See `GroupPlan`."""

    topology: Topology
    configs: AssignmentConfigs
    tasks: TaskMap
    view: StreamsView
    process_map: ProcessMap
    target: StreamsPlan
    threads: ThreadPlan
    pending: shared.BoolArray
    temporary: shared.IntArray
    out: Outgoing
    before: shared.IntArray
    report_at_ms: shared.LongArray
    joined: tuple[shared.RawMember, ...]
    memory: StreamsMemory
    refused: shared.Refused
    shutdown: bool = False

    words = TASKS
    replayable = False  # members do not send lags and memory

    @property
    def cluster(self) -> shared.ClusterView:
        return self.tasks.cluster

    @property
    def owner(self) -> shared.IntArray:
        return self.target.active

    @property
    def item_of(self) -> shared.IntArray:
        return self.tasks.task_of

    @property
    def application(self) -> str:
        return self.topology.summary

    @property
    def lags_known(self) -> bool:
        return self.view.lags_known

    @property
    def state(self) -> Self:
        """The plan itself, because it knows the state of its tasks."""
        return self

    @cached_property
    def owners(self) -> tuple[shared.Owner, ...]:
        return tuple(
            shared.Owner(str(p.process_id), p.rack, p.members, leader_only=p.leader_only) for p in self.view.processes
        )

    @cached_property
    def copies(self) -> tuple[shared.CopyLag, ...]:
        """The standbys and warm-ups, with the lag of each and the age of that number."""
        view = self.view
        reported = view.report.codes(view.tasks.size)
        wanted = shared.task_code(self.target.standby_process, self.target.standby_task, view.tasks.size)
        at = np.minimum(np.searchsorted(reported, wanted), max(0, len(reported) - 1))
        is_reported = reported[at] == wanted if len(reported) else np.zeros(len(wanted), dtype=np.bool_)
        if len(view.report_hidden):
            is_reported &= ~view.report_hidden[at]
        result: list[shared.CopyLag] = []
        pairs = zip(self.target.standby_task.tolist(), self.target.standby_process.tolist(), strict=True)
        for (task, process), warmup, k, is_known in zip(
            pairs, self.target.warmup.tolist(), at, is_reported, strict=True
        ):
            lag = int(view.report_lag[k]) if is_known else int(view.tasks.end_sum[task])
            age = view.now_ms - int(self.report_at_ms[k]) if is_known else None
            result.append(
                shared.CopyLag(view.tasks.task_id(task), view.processes[process].process_id, warmup, lag, age)
            )
        return tuple(result)

    def tasks_of(self, member_id: str) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...]]:
        """Returns the (active, standby) tasks that this member is sent now."""
        ids = [member.member_id for member in self.joined]
        if member_id not in ids:
            return (), ()
        row = ids.index(member_id)
        table = self.view.tasks
        active = np.flatnonzero(self.out.holder == row).tolist()
        standby = self.out.standby_task[self.out.standby_row == row].tolist()
        return tuple(map(table.task_id, active)), tuple(map(table.task_id, standby))

    def name(self, item: int) -> str:
        return str(self.view.tasks.task_id(item))

    task = name

    def names(self, items: shared.IntArray | shared.LongArray) -> list[str]:
        return list(map(self.name, items.tolist()))

    def cost(self, owner: shared.IntArray) -> shared.Cost:
        view, table = self.view, self.view.tasks
        placed = np.flatnonzero(owner >= 0)
        counts = np.bincount(owner[placed], minlength=view.size)
        rack = view.rack[owner[placed]]
        racked, rack_of_racked = placed[rack >= 0], rack[rack >= 0]
        remote = int(table.source_remote[table.source_signature[racked], rack_of_racked].sum()) if len(racked) else 0
        return shared.Cost(len(owner) - len(placed), remote, int(counts.max() - counts.min()) if view.size else 0)

    def read_remotely(self, owner: shared.IntArray) -> tuple[shared.BoolArray, shared.BoolArray]:
        table = self.view.tasks
        rack = shared.lookup(self.view.rack, owner, shared.NO_RACK)
        comparable = (rack != shared.NO_RACK) & table.racks_known
        remote = table.source_remote[table.source_signature, np.where(rack < 0, 0, rack)] > 0
        return comparable, (rack == shared.FOREIGN_RACK) | ((rack >= 0) & remote)

    def topic_changes(self, previous: Self) -> list[str]:
        existing = self.cluster.index
        sources = [topic for topic in self.topology.source_topics if topic in existing]
        resized = [topic for topic in sources if _size(previous.cluster, topic) != _size(self.cluster, topic)]
        return [f"partitions changed of {', '.join(resized[:NAMES_SHOWN])}"] if resized else []

    def summary(self) -> dict[str, object]:
        numbers = report(self)
        return {
            "processes": {short(p.process_id): str(p) for p in numbers.processes},
            "threads": numbers.threads,
            "tasks": numbers.tasks,
            "warmups": [f"{w.task} on {short(w.process_id)}, {w.lag} behind" for w in numbers.warmups],
            "standbys": numbers.standbys,
            "standby_lag": numbers.standby_lag,
            "standby_lag_age_ms": numbers.standby_lag_age_ms,
            "lags_known": self.lags_known,
            "stages": [f"{stage.stage}: {stage.reason}" for stage in self.target.stages],
            "probing_in_ms": self.configs.probing_rebalance_interval_ms if self.target.probing else None,
        }

    def findings(self, raw: shared.RawGroup, assignments: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
        """Decodes the JoinGroup response again instead of relying on anything computed before, because one wrong byte
        stops a whole instance (docs/internals/client-quirks.md#java-streams-threads)."""
        decoded, blobs = decode_streams(raw), dict(assignments)
        own = [m.member_id for m in raw.members if m.member_id in raw.own_member_ids]
        findings = [finding for member_id in own for finding in validate_own(blobs[member_id])]
        if self.shutdown:
            return tuple(findings)
        findings += validate_plan(self.view, self.target)
        findings += validate_bytes(decoded, self.tasks, self.out, [blobs[m.member_id] for m in decoded.members])
        wrong = int(((self.out.holder >= 0) == (self.pending | (self.owner < 0))).sum())
        findings += [f"{wrong} tasks are neither sent nor pending, or both"] * bool(wrong)
        return tuple(findings)

    def in_generation(self, generation: int) -> Self:
        memory = replace(self.memory, plan=replace(self.memory.plan, generation=generation))
        return replace(self, view=replace(self.view, generation=generation), memory=memory)

    def placed_by(self, item: int, policy: str, stages: Sequence[shared.StageReport]) -> str:
        """Returns which part of the policy placed the task: a stage that reports it, a warm-up's detour, or the base
        placement."""
        if item in self.target.standby_task[self.target.warmup].tolist():
            return "task movement: waits where it is caught up while its target warms up"
        stage = self._refined_by(item, stages)
        if stage:
            return stage
        if int(self.owner[item]) != int(self.before[item]):
            return f"placement by {policy}"
        suspended = f", as all do {WHILE_SUSPENDED}" if self.target.suspended else ""
        return f"placement by {policy}: its owner keeps it{suspended}"

    def _refined_by(self, task: int, stages: Sequence[shared.StageReport]) -> str:
        """Returns the stage that took the task from its owner before the others placed it, else the last configured one
        that gave it to another process than earlier stages, "" for none.
        Stateful tasks go through the stages first, the others after them."""
        owner, decisive = shared.NOBODY, ""
        which = "stateful tasks" if self.view.tasks.stateful[task] else "stateless tasks"
        for stage in stages:
            if not stage.stage.endswith(f", {which}"):
                continue
            if stage.released is not None and stage.released[task]:
                return stage.stage
            if stage.owner is not None and stage.taken and int(stage.owner[task]) != owner:
                decisive = "" if owner == shared.NOBODY else stage.stage
                owner = int(stage.owner[task])
        return decisive

    def rejected_claims(self, item: int) -> tuple[str, ...]:
        flats = np.flatnonzero(self.item_of == item)
        return tuple(f"{self.joined[row].member_id} {what}" for row, what in self.refused.of(flats.tolist()))

    def why_moved(self, item: int, stages: Sequence[shared.StageReport]) -> str:  # noqa: ARG002 - the interface of all plans
        return "handed out when its owner has given it up" if self.pending[item] else "handed out now"

    def alternatives(self, item: int, most: int) -> tuple[shared.Alternative, ...]:
        return alternatives(self, item, most)

    def infeasible(self, rule: shared.Rule, others: Sequence[shared.Rule]) -> str:
        return streams_stages.infeasible(self.view, rule, others)

    def against(self, rules: Sequence[shared.Rule], owner: shared.IntArray) -> shared.IntArray:
        return streams_stages.against(self.view, rules, owner)

    def named(self, where: str) -> shared.BoolArray:
        return np.array([streams_stages.means(process, where) for process in self.view.processes], dtype=np.bool_)

    def last_copies(self, rules: Sequence[shared.Rule]) -> shared.IntArray:
        return streams_stages.last_copies(self.view, rules, self.configs.acceptable_recovery_lag)

    def find(self, text: str) -> list[int]:
        for i, process in enumerate(self.view.processes):
            if text in (str(process.process_id), *process.members):
                return [int(task) for task in np.flatnonzero(self.owner == i)]
        table = self.view.tasks
        matches = [task for task in range(table.size) if str(table.task_id(task)) == text]
        if not matches:
            named = f"neither a task (such as {table.task_id(0)}) nor a process or thread of the application"
            raise shared.UnknownItemError(f"{text} is {named}.")
        return matches


def _size(cluster: shared.ClusterView, topic: str) -> int:
    return int(cluster.counts[cluster.index[topic]]) if topic in cluster.index else 0


def without_host_maps(decision: Decision[TaskPlan], why: str) -> Decision[TaskPlan] | None:
    """Returns the same decision with empty host maps, and a warning with the reason `why`; None if there are no maps to
    leave out. The maps are empty for all members, because maps that lack only their own endpoint would make them rejoin
    endlessly."""
    plan = decision.plan
    hosts = any(process.endpoint for process in plan.view.processes)
    if plan.shutdown or not hosts or plan.out.without_hosts.all():
        return None
    out = replace(plan.out, without_hosts=np.ones(plan.out.rows, dtype=np.bool_))
    theirs = iter(encode_assignments(plan.tasks, HostMaps.none(), out))
    own = decision.raw.own_member_ids
    return replace(
        decision,
        plan=replace(plan, out=out),
        assignments=tuple([(m, blob if m in own else next(theirs)) for m, blob in decision.assignments]),
        warnings=(*decision.warnings, f"interactive queries get no hosts: {why}"),
    )
