"""The pure decision of a Streams group's leader: from the bytes of a JoinGroup response to those of a SyncGroup
request.

It never raises. If no valid plan can be sent, it returns a Refusal with the reason, and a Java member leads.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.streams import members, sending
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    EndOffsets,
    StreamsPlan,
    StreamsView,
    TaskLags,
    TaskMap,
    ThreadPlan,
    Topology,
    build_tasks,
)
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE, STREAMS_HA, assign_fallback_prior, assign_streams
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.assignors.streams.task_plan import TaskPlan
from bellwether_kafka.assignors.streams.threads import spread
from bellwether_kafka.protocol.primitives import HostInfo

_LISTED = 5
_WITH_MEMORY = (STREAMS_HA, LOAD_AWARE)  # the policies that use hidden state and destinations
_FETCH_MS = 1_000  # time for a busy owner to fetch a plan: ten times Kafka's default poll.ms of a thread


@dataclass(frozen=True, slots=True)
class Assignors:
    """The functions that place tasks: `assign` for a policy by name, `fallback` if that fails or lags are unknown,
    `spread` for threads.

    `without_lags`: `assign` also runs if lags are unknown, as for custom assignors in Java; the stock policies need
    lags. `cheap`: the policy was late or failed, and `assign` is the fallback. Processes that left less than
    `affinity_ms` ago are remembered with their tasks. `durable`: stores survive a restart of their process, except
    for what a crash loses of them (see `hidden_state`). `rules` are the operator's orders that `assign` applies.
    """

    assign: Callable[[StreamsView, AssignmentConfigs, str], StreamsPlan]
    fallback: Callable[[StreamsView, AssignmentConfigs], StreamsPlan]
    spread: Callable[[StreamsView, StreamsPlan], ThreadPlan]
    without_lags: bool = False
    cheap: bool = False
    affinity_ms: int = 0
    durable: bool = False
    rules: tuple[shared.Rule, ...] = ()


STOCK = Assignors(assign_streams, assign_fallback_prior, spread)


def stock(stages: StageConfigs, *, durable: bool = False) -> Assignors:
    """Returns the stock policies with these stages."""
    made = replace(STOCK, durable=True) if durable else STOCK
    if not stages.any:
        return made
    assign = partial(assign_streams, stages=stages)
    return replace(made, assign=assign, affinity_ms=stages.host_affinity_ms, rules=stages.rules)


@dataclass(frozen=True, slots=True, eq=False)
class _Planning:
    """The arguments of one decision, and what was decoded from them."""

    raw: shared.RawGroup
    configs: AssignmentConfigs
    policy: str
    now_ms: int
    seed: int
    memory: members.StreamsMemory
    assignors: Assignors
    decoded: members.DecodedStreams
    process_map: members.ProcessMap
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """The inputs of a decision, and the parts of former rebalances that go on into the next memory."""

    tasks: TaskMap
    claims: members.ThreadClaims
    seen: members.TimestampedView
    homes: members.Homes = field(default_factory=dict)
    hidden: members.HiddenState | None = None

    @property
    def view(self) -> StreamsView:
        return self.seen.view


def decide_streams(
    raw: shared.RawGroup,
    cluster: shared.ClusterView,
    ends: EndOffsets,
    topology: Topology,
    memory: members.StreamsMemory,
    configs: AssignmentConfigs,
    policy: str,
    now_ms: int,
    seed: int = 0,
    *,
    assignors: Assignors = STOCK,
) -> shared.Decision[TaskPlan] | shared.Refusal:
    """Decides one rebalance. Pure: equal arguments give equal results. Never raises. `cluster` must have
    `topology.topics` and all topics that members subscribe to; `ends` must have what `wanted_offsets` returns."""
    warnings: list[str] = []
    try:
        decoded = members.decode_streams(raw, memory.threads.keys() if memory.led else ())
        process_map = members.gather(decoded, memory)
        warnings += members.member_warnings(decoded, process_map)
        work = _Planning(raw, configs, policy, now_ms, seed, memory, assignors, decoded, process_map, warnings)
        if decoded.shutdown or not decoded.members:
            return _without_work(work, cluster, topology)
        return _decide(work, cluster, ends, topology)
    except shared.RefusalError as error:
        return replace(error.refusal, warnings=tuple(warnings))
    except Exception as error:  # noqa: BLE001 - members and plug-ins are not trusted; a raise would block the group
        return shared.Refusal(shared.RefusalCause.PLAN, f"no plan for group {raw.group_id}: {error!r}", tuple(warnings))


def _decide(
    work: _Planning, seen: shared.ClusterView, ends: EndOffsets, declared: Topology
) -> shared.Decision[TaskPlan]:
    decoded, process_map, memory = work.decoded, work.process_map, work.memory
    members.check_members(decoded, process_map)
    topology = members.check_topology(decoded, process_map, declared, seen)
    cluster = members.known_cluster(topology, seen, memory)
    if process_map.leader_only:
        cluster = cluster.with_leaders()
    work.warnings.extend(members.check_topics(topology, cluster))
    members.check_standbys(topology, memory, work.configs)
    tasks, trouble = build_tasks(topology, cluster, ends)
    claims = members.read_claims(decoded, tasks, memory)
    reports = members.read_reports(decoded, tasks)
    wrong = members.contradictions(decoded, tasks, claims, reports, memory)
    _refuse(wrong, "the topology is not that of the members", shared.RefusalCause.TOPOLOGY)
    if work.raw.resting:
        reports = members.reports_at_rest(decoded, process_map, tasks, claims, memory)
    timestamped = members.streams_view(
        decoded, process_map, tasks, claims, reports, memory, work.now_ms, lags_known=trouble is None
    )
    inputs = _with_former_rebalances(work, _Inputs(tasks, claims, timestamped))
    work.warnings.extend((*timestamped.warnings, *members.state_warnings(claims, decoded, trouble)))
    keys, rules = [member.key for member in decoded.members], work.assignors.rules
    careful = work.policy in _WITH_MEMORY  # what they promise depends on state, and on who still runs a task
    last = members.target_to_carry_out(inputs.view, tasks, claims, keys, memory, rules, careful=careful)
    if last is not None and sending.validate_plan(inputs.view, last.plan):
        last = None
    plan, by_policy = (last.plan, True) if last is not None and last.by_policy else _plan(work, inputs.view)
    if last is None or by_policy is not last.by_policy:
        return _sent(work, inputs, plan, _threads(work, inputs.view, plan), by_policy=by_policy)
    threads = _threads(work, inputs.view, last.plan, last.threads)
    return _sent(work, inputs, last.plan, threads, by_policy=last.by_policy)


def _with_former_rebalances(work: _Planning, inputs: _Inputs) -> _Inputs:
    """Adds what is known from former rebalances: hidden state of restarted processes, destinations, and the homes of
    tasks."""
    seen, hidden, tasks = inputs.seen, None, inputs.tasks
    memory, process_map, now_ms = work.memory, work.process_map, work.now_ms
    if inputs.view.lags_known and work.policy in _WITH_MEMORY:
        configs, durable = work.configs, work.assignors.durable
        seen, hidden = members.use_hidden_state(
            seen, memory, work.decoded, process_map, tasks, now_ms, configs, durable=durable
        )
        expects_reports = hidden.expects_reports(now_ms, TaskLags.of(seen.view, configs.acceptable_recovery_lag))
        seen = replace(seen, view=members.use_destinations(seen.view, memory, tasks, expects_reports=expects_reports))
    homes = members.known_homes(memory, tasks, process_map, now_ms, work.assignors.affinity_ms)
    home, homes = members.home_of(seen.view, homes)
    if hidden is not None:
        home = hidden.homes(home)
    return replace(inputs, seen=replace(seen, view=replace(seen.view, home=home)), homes=homes, hidden=hidden)


def _plan(work: _Planning, view: StreamsView) -> tuple[StreamsPlan, bool]:
    """Returns the policy's plan if the policy can run and the plan is valid, else the fallback's plan, with a warning;
    and whether the policy made it."""
    if view.lags_known or work.assignors.without_lags:
        try:
            plan = work.assignors.assign(view, work.configs, work.policy)
            reason = "; ".join(sending.validate_plan(view, plan))
        except Exception as error:  # noqa: BLE001 - a policy may be third-party code, and must not block the group
            reason = repr(error)
        if not reason:
            return plan, not work.assignors.cheap
        work.warnings.append(f"policy {work.policy} gave no valid plan, so the fallback was used: {reason}")
    plan = work.assignors.fallback(view, work.configs)
    _refuse(sending.validate_plan(view, plan), "no valid plan")
    return plan, False


def _threads(work: _Planning, view: StreamsView, plan: StreamsPlan, threads: ThreadPlan | None = None) -> ThreadPlan:
    threads = threads or work.assignors.spread(view, plan)
    _refuse(sending.validate_threads(view, plan, threads, work.process_map), "no valid plan on threads")
    return threads


def _sent(
    work: _Planning, inputs: _Inputs, plan: StreamsPlan, threads: ThreadPlan, *, by_policy: bool
) -> shared.Decision[TaskPlan]:
    """Returns the decision with what can be sent of the target now, encoded. (`TaskPlan.findings` reads it
    back.)"""
    decoded, process_map, tasks, view = work.decoded, work.process_map, inputs.tasks, inputs.view
    target = shared.lookup(process_map.member, threads.active, shared.NOBODY)
    pending = members.still_held(tasks, inputs.claims, target)
    temporary = _temporary(view, plan, np.flatnonzero(pending).astype(np.int32), target)
    maps = sending.host_maps(view, plan, tasks)
    destinations = None if inputs.hidden is None else members.destinations_after(view, plan, work.memory)
    rows = np.concatenate([process_map.member[threads.standby], temporary[:, 0]])
    standby_tasks = np.concatenate([plan.standby_task, temporary[:, 1]])
    order = np.lexsort((standby_tasks, rows))
    out = sending.Outgoing(
        rows=len(decoded.members),
        holder=np.where(pending, shared.NOBODY, target).astype(np.int32),
        standby_row=rows[order].astype(np.int32),
        standby_task=standby_tasks[order].astype(np.int32),
        next_rebalance_ms=_called_back(work, inputs, plan, target, pending, destinations),
        without_hosts=_without_hosts(decoded, set(maps.hosts)),
        version=process_map.version,
        common=process_map.common,
    )
    blobs = sending.encode_assignments(tasks, maps, out)
    before = shared.lookup(process_map.process, view.running_on, shared.NOBODY)
    records = work.memory.records if inputs.hidden is None else members.records_after(inputs.hidden, view, plan)
    memory = sending.remember(
        decoded, tasks, out, work.memory, work.now_ms, inputs.homes, records, inputs.claims, destinations
    )
    if pending.any():
        rules = work.assignors.rules
        memory = replace(memory, target=members.target_of(view, plan, threads, pending, rules, by_policy=by_policy))
    decided = TaskPlan(
        topology=tasks.topology,
        configs=work.configs,
        tasks=tasks,
        view=view,
        process_map=process_map,
        target=plan,
        threads=threads,
        pending=pending,
        temporary=temporary,
        out=out,
        before=before,
        report_at_ms=inputs.seen.report_at_ms,
        joined=decoded.members,
        memory=memory,
        refused=inputs.claims.refused,
    )
    return shared.Decision(
        raw=work.raw,
        policy=work.policy,
        decided_at_ms=work.now_ms,
        seed=work.seed,
        plan=decided,
        assignments=_assignments(work.raw, blobs),
        stages=plan.stages,
        warnings=(*work.warnings, *plan.notes),
        notes=plan.notes,
        probing_at_ms=_probing_at_ms(work, plan),
        called_at_ms=sending.first_deadline(out.next_rebalance_ms),
    )


def _probing_at_ms(work: _Planning, plan: StreamsPlan) -> int | None:
    """Returns when Bellwether should rejoin to see what has changed. Threads rejoin at their deadlines by themselves,
    but stateful members know no deadlines, and the thread that has one may have left."""
    tick_ms = [work.now_ms + work.configs.probing_rebalance_interval_ms] if plan.probing else []
    return min((*tick_ms, *(at_ms for _, at_ms in plan.deadlines)), default=None)


def _without_work(work: _Planning, cluster: shared.ClusterView, topology: Topology) -> shared.Decision[TaskPlan]:
    """Returns the decision for a group in which Bellwether is alone, or whose members request a shutdown of the
    application; then every member gets that order."""
    empty = Topology(topology.application_id, (), topology.source)
    if work.process_map.leader_only:
        cluster = cluster.with_leaders()
    tasks, _ = build_tasks(empty, cluster, EndOffsets())
    claims = members.read_claims(work.decoded, tasks, work.memory)
    reports = members.read_reports(work.decoded, tasks)
    seen = members.streams_view(
        work.decoded, work.process_map, tasks, claims, reports, work.memory, work.now_ms, lags_known=True
    )
    nothing = np.zeros(0, dtype=np.int32)
    plan = StreamsPlan.of_active(nothing)
    decision = _sent(work, _Inputs(tasks, claims, seen), plan, ThreadPlan(nothing, nothing), by_policy=True)
    if not work.decoded.shutdown:
        return decision
    stop = sending.shutdown_assignment(work.process_map.version, work.process_map.common, members.SHUTDOWN_REQUESTED)
    requesters = [
        m.member_id for m, code in zip(work.decoded.members, work.decoded.infos.error_code, strict=True) if code
    ]
    return replace(
        decision,
        assignments=_assignments(work.raw, [stop] * len(work.decoded.members)),
        warnings=(*decision.warnings, f"members ask to shut the application down: {', '.join(requesters[:_LISTED])}"),
        plan=replace(decision.plan, shutdown=True),
    )


def _assignments(raw: shared.RawGroup, blobs: list[bytes]) -> tuple[tuple[str, bytes], ...]:
    own, theirs = sending.own_assignment(), iter(blobs)
    return tuple((m.member_id, own if m.member_id in raw.own_member_ids else next(theirs)) for m in raw.members)


def _refuse(findings: Sequence[str], what: str, cause: shared.RefusalCause = shared.RefusalCause.PLAN) -> None:
    """Raises RefusalError if there are findings."""
    if findings:
        raise shared.RefusalError(cause, f"{what}: {'; '.join(findings[:_LISTED])}")


def _temporary(
    view: StreamsView, plan: StreamsPlan, tasks: shared.IntArray, target: shared.IntArray
) -> shared.IntArray:
    """Returns (row, task) of pending tasks whose store the new process already keeps, so that it does not close the
    store for one rebalance."""
    if not len(tasks) or not len(view.previous_standby.values):
        return np.zeros((0, 2), dtype=np.int32)
    kept = view.previous_standby.codes(view.tasks.size)
    wanted = shared.task_code(plan.active[tasks], tasks, view.tasks.size)
    mine = tasks[view.tasks.stateful[tasks] & shared.among(wanted, kept)]
    return np.stack([target[mine], mine], axis=1).astype(np.int32)


def _called_back(
    work: _Planning,
    inputs: _Inputs,
    plan: StreamsPlan,
    target: shared.IntArray,
    pending: shared.BoolArray,
    destinations: members.Destinations | None,
) -> shared.LongArray:
    """Returns when each member should rejoin. If a task is pending, its receiver rejoins at once, as in Kafka.

    Other members would learn of that rebalance with their next heartbeat, and the task runs nowhere until the last
    member has joined; so all members are called. They are not called again while an owner has not yet given up what the
    last plan took from it: a busy owner may not have fetched that plan before the others were back, and members that
    return at once would keep it from fetching the next plan too. Then only the receivers are called, and later; the
    owner rejoins by itself once it has given the task up.

    If a restarted process still has to report its state, all members rejoin soon, unless they do so at once anyway.
    """
    decoded, process_map, memory = work.decoded, work.process_map, work.memory
    rows = set(target[pending].tolist())
    given = memory.plan.owner_in(inputs.tasks.cluster, [m.key for m in decoded.members]) != shared.NOBODY
    pending_now = shared.lookup(pending, inputs.tasks.task_of, False)
    all_given = bool(given[pending_now].all())
    first = shared.offsets([p.capacity for p in process_map.processes])  # a process's deadline goes to its first member
    later = [(int(process_map.member[first[process]]), at_ms) for process, at_ms in plan.deadlines]
    if rows and memory.led and memory.processes and not all_given:
        return sending.deadlines(len(decoded.members), (), [*later, *((r, work.now_ms + _FETCH_MS) for r in rows)])
    if rows and all_given:
        rows |= set(process_map.member.tolist())
    if inputs.hidden is not None and destinations is not None and not rows:
        lags = TaskLags.of(inputs.view, work.configs.acceptable_recovery_lag)
        rejoin_at_ms = members.rejoins_at_ms(inputs.hidden, lags, plan, inputs.view.capacity, work.now_ms)
        if rejoin_at_ms is not None and rejoin_at_ms >= destinations.next_hand_over_ms(work.now_ms):
            later = [(row, rejoin_at_ms) for row in process_map.member.tolist()]
    return sending.deadlines(len(decoded.members), sorted(rows), later)


def _without_hosts(decoded: members.DecodedStreams, hosts: Collection[HostInfo]) -> shared.BoolArray:
    """Marks members with an endpoint that the host maps lack. They get empty maps, because maps without their endpoint
    would make them rejoin endlessly."""
    texts = decoded.infos.end_point
    unseen = {text for text in set(texts) if text and members.end_point(text) not in hosts}
    return np.array([text in unseen for text in texts], dtype=np.bool_)
