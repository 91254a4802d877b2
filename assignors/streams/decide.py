"""The pure function of a Streams group's leader: the bytes of a JoinGroup answer in, those of SyncGroup out.

It never raises: where no valid plan can be sent, the answer is a Refusal with its reason, and a Java member leads.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    ClusterView,
    Decision,
    IntArray,
    LongArray,
    RawGroup,
    Refusal,
    RefusalCause,
    RefusalError,
    among,
)
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
from bellwether_kafka.assignors.streams.members import (
    SHUTDOWN_REQUESTED,
    DatedView,
    DecodedStreams,
    Homes,
    ProcessMap,
    Recalled,
    StreamsMemory,
    ThreadClaims,
    asks_again_at_ms,
    check_members,
    check_standbys,
    check_topics,
    check_topology,
    contradictions,
    decode_streams,
    end_point,
    gather,
    held_after,
    home_of,
    keep_promises,
    known_cluster,
    known_homes,
    member_warnings,
    read_claims,
    read_reports,
    recall,
    state_warnings,
    streams_view,
    with_recalled,
    withheld,
)
from bellwether_kafka.assignors.streams.plan import TaskPlan
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_fallback_prior, assign_streams
from bellwether_kafka.assignors.streams.sending import (
    Outgoing,
    deadlines,
    encode_assignments,
    host_maps,
    own_assignment,
    remember,
    shutdown_assignment,
    validate_bytes,
    validate_own,
    validate_plan,
    validate_threads,
)
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.assignors.streams.threads import spread
from bellwether_kafka.protocol.primitives import HostInfo

_LISTED = 5


@dataclass(frozen=True, slots=True)
class Assignors:
    """Who places tasks: the policy by name, what serves where it fails or lags are unknown, and threads.

    `copes` with unknown lags: a custom assignor is asked even then, as in Java; the stock policies need lags. Processes
    that went less than `affinity_ms` ago are remembered with their tasks. `durable` stores survive the restart of their
    process, up to what a crash loses of them (see `recalled`).
    """

    assign: Callable[[StreamsView, AssignmentConfigs, str], StreamsPlan]
    fallback: Callable[[StreamsView, AssignmentConfigs], StreamsPlan]
    spread: Callable[[StreamsView, StreamsPlan], ThreadPlan]
    copes: bool = False
    affinity_ms: int = 0
    durable: bool = False


STOCK = Assignors(assign_streams, assign_fallback_prior, spread)


def stock(stages: StageConfigs, *, durable: bool = False) -> Assignors:
    """The stock policies with these stages."""
    made = replace(STOCK, durable=True) if durable else STOCK
    if not stages.any:
        return made
    return replace(made, assign=partial(assign_streams, stages=stages), affinity_ms=stages.host_affinity_ms)


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """The arguments of one decision, and what has been read from them."""

    raw: RawGroup
    configs: AssignmentConfigs
    policy: str
    now_ms: int
    seed: int
    memory: StreamsMemory
    assignors: Assignors
    decoded: DecodedStreams
    process_map: ProcessMap
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Past:
    """What of former rounds goes on: into this one, and into the memory of it."""

    homes: Homes = field(default_factory=dict)
    recalled: Recalled | None = None


def decide_streams(
    raw: RawGroup,
    cluster: ClusterView,
    ends: EndOffsets,
    topology: Topology,
    memory: StreamsMemory,
    configs: AssignmentConfigs,
    policy: str,
    now_ms: int,
    seed: int = 0,
    *,
    assignors: Assignors = STOCK,
) -> Decision[TaskPlan] | Refusal:
    """Decides one round. Pure: equal arguments give equal answers. Never raises.

    `cluster` holds `topology.topics` and whatever members subscribe to; `ends` what `wanted_offsets` asks for.
    """
    warnings: list[str] = []
    try:
        decoded = decode_streams(raw, memory.threads.keys() if memory.led else ())
        process_map = gather(decoded, memory)
        warnings += member_warnings(decoded, process_map)
        work = _Round(raw, configs, policy, now_ms, seed, memory, assignors, decoded, process_map, warnings)
        if decoded.shutdown or not decoded.members:
            return _without_work(work, cluster, topology)
        return _decide(work, cluster, ends, topology)
    except RefusalError as error:
        return replace(error.refusal, warnings=tuple(warnings))
    except Exception as error:  # noqa: BLE001 - members, plug-ins and files are anybody's; a raise would park the group
        return Refusal(RefusalCause.PLAN, f"no plan for group {raw.group_id}: {error!r}", tuple(warnings))


def _decide(work: _Round, seen: ClusterView, ends: EndOffsets, declared: Topology) -> Decision[TaskPlan]:
    decoded, process_map, memory = work.decoded, work.process_map, work.memory
    check_members(decoded, process_map)
    topology = check_topology(decoded, process_map, declared, seen)
    cluster = known_cluster(topology, seen, memory)
    check_topics(topology, cluster)
    check_standbys(topology, memory, work.configs)
    tasks, trouble = build_tasks(topology, cluster, ends)
    claims = read_claims(decoded, tasks, memory)
    reports = read_reports(decoded, tasks)
    wrong = contradictions(decoded, tasks, claims, reports, memory)
    if wrong:
        raise RefusalError(
            RefusalCause.TOPOLOGY, f"the topology is not that of the members: {'; '.join(wrong[:_LISTED])}"
        )
    dated = streams_view(decoded, process_map, tasks, claims, reports, memory, work.now_ms, lags_known=trouble is None)
    recalled, promised_to = None, dated.view.home
    if trouble is None and work.policy == STREAMS_HA:
        recalled = recall(memory, decoded, process_map, dated.view, tasks, work.now_ms, durable=work.assignors.durable)
        view, promised_to = keep_promises(dated.view, recalled, work.configs.acceptable_recovery_lag)
        dated = _with_recalled(work, replace(dated, view=view), recalled)
    homes = known_homes(memory, tasks, process_map, work.now_ms, work.assignors.affinity_ms)
    home, homes = home_of(dated.view, homes)
    if recalled is not None:
        home = np.where(home == NOBODY, recalled.home, home)
        home = np.where(home == NOBODY, recalled.lost, home)
        home = np.where(promised_to == NOBODY, home, promised_to)
    dated = replace(dated, view=replace(dated.view, home=home))
    work.warnings.extend((*dated.warnings, *state_warnings(claims, decoded, trouble)))
    plan = _plan(work, dated.view)
    threads = _threads(work, dated.view, plan)
    return _sent(work, tasks, claims, dated, plan, threads, _Past(homes, recalled))


def _with_recalled(work: _Round, dated: DatedView, recalled: Recalled) -> DatedView:
    """With what restarted processes hide, as far as is remembered."""
    if not len(recalled.hidden):
        return dated
    view, place = with_recalled(dated.view, recalled, work.configs.acceptable_recovery_lag)
    at_ms = np.full(len(view.report_task), work.now_ms, dtype=np.int64)
    at_ms[place] = dated.report_at_ms
    return replace(dated, view=view, report_at_ms=at_ms)


def _plan(work: _Round, view: StreamsView) -> StreamsPlan:
    """The policy's plan if it can be asked and is valid, else the fallback's and a warning."""
    if view.lags_known or work.assignors.copes:
        try:
            plan = work.assignors.assign(view, work.configs, work.policy)
            reason = "; ".join(validate_plan(view, plan))
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's code, and the group must not stand still
            reason = repr(error)
        if not reason:
            return plan
        work.warnings.append(f"policy {work.policy} gave no valid plan, the fallback was used instead: {reason}")
    plan = work.assignors.fallback(view, work.configs)
    findings = validate_plan(view, plan)
    if findings:
        raise RefusalError(RefusalCause.PLAN, f"no valid plan: {'; '.join(findings[:_LISTED])}")
    return plan


def _threads(work: _Round, view: StreamsView, plan: StreamsPlan) -> ThreadPlan:
    threads = work.assignors.spread(view, plan)
    findings = validate_threads(view, plan, threads, work.process_map)
    if findings:
        raise RefusalError(RefusalCause.PLAN, f"no valid plan on threads: {'; '.join(findings[:_LISTED])}")
    return threads


def _sent(
    work: _Round,
    tasks: TaskMap,
    claims: ThreadClaims,
    dated: DatedView,
    plan: StreamsPlan,
    threads: ThreadPlan,
    past: _Past,
) -> Decision[TaskPlan]:
    """What of the target can be sent now, encoded, read back and found right."""
    decoded, process_map, view = work.decoded, work.process_map, dated.view
    target = _row(process_map, threads.active)
    held_back = withheld(tasks, claims, target)
    temporary = _temporary(view, plan, np.flatnonzero(held_back).astype(np.int32), target)
    rows = np.concatenate([_row(process_map, threads.standby), temporary[:, 0]])
    standby_tasks = np.concatenate([plan.standby_task, temporary[:, 1]])
    order = np.lexsort((standby_tasks, rows))
    maps = host_maps(view, plan, tasks)
    out = Outgoing(
        rows=len(decoded.members),
        holder=np.where(held_back, NOBODY, target).astype(np.int32),
        standby_row=rows[order].astype(np.int32),
        standby_task=standby_tasks[order].astype(np.int32),
        next_rebalance_ms=_called_back(work, tasks, plan, target, held_back, _next_look_ms(work, view, plan, past)),
        blind=_blind(decoded, set(maps.hosts)),
        version=process_map.version,
        common=process_map.common,
    )
    blobs = encode_assignments(tasks, maps, out)
    findings = validate_bytes(decoded, tasks, out, blobs)
    if findings:
        raise RefusalError(RefusalCause.PLAN, f"the plan cannot be sent: {'; '.join(findings[:_LISTED])}")
    before = np.append(process_map.process, NOBODY)[view.running_on].astype(np.int32)
    held = work.memory.held if past.recalled is None else held_after(past.recalled, view, plan)
    decided = TaskPlan(
        topology=tasks.topology,
        configs=work.configs,
        tasks=tasks,
        view=view,
        process_map=process_map,
        target=plan,
        threads=threads,
        withheld=held_back,
        temporary=temporary,
        out=out,
        before=before,
        report_at_ms=dated.report_at_ms,
        joined=decoded.members,
        memory=remember(decoded, tasks, out, work.memory, work.now_ms, past.homes, held, claims),
    )
    return Decision(
        raw=work.raw,
        policy=work.policy,
        decided_at_ms=work.now_ms,
        seed=work.seed,
        plan=decided,
        assignments=_assignments(work.raw, blobs),
        stages=plan.stages,
        warnings=(*work.warnings, *plan.notes),
        notes=plan.notes,
        probing_at_ms=work.now_ms + work.configs.probing_rebalance_interval_ms if plan.probing else None,
    )


def _without_work(work: _Round, cluster: ClusterView, topology: Topology) -> Decision[TaskPlan]:
    """A group that has nobody but us, or one that asks to be shut down: then everybody is told so."""
    empty = Topology(topology.application_id, (), topology.source)
    tasks, _ = build_tasks(empty, cluster, EndOffsets())
    claims = read_claims(work.decoded, tasks, work.memory)
    reports = read_reports(work.decoded, tasks)
    dated = streams_view(
        work.decoded, work.process_map, tasks, claims, reports, work.memory, work.now_ms, lags_known=True
    )
    nothing = np.zeros(0, dtype=np.int32)
    plan = StreamsPlan.of_active(nothing)
    decision = _sent(work, tasks, claims, dated, plan, ThreadPlan(nothing, nothing), _Past())
    if not work.decoded.shutdown:
        return decision
    stop = shutdown_assignment(work.process_map.version, work.process_map.common, SHUTDOWN_REQUESTED)
    asked = [m.member_id for m, code in zip(work.decoded.members, work.decoded.infos.error_code, strict=True) if code]
    return replace(
        decision,
        assignments=_assignments(work.raw, [stop] * len(work.decoded.members)),
        warnings=(*decision.warnings, f"members ask to shut the application down: {', '.join(asked[:_LISTED])}"),
        plan=replace(decision.plan, shutdown=True),
    )


def _assignments(raw: RawGroup, blobs: list[bytes]) -> tuple[tuple[str, bytes], ...]:
    own = own_assignment()
    findings = validate_own(own)
    if findings:
        raise RefusalError(RefusalCause.PLAN, findings[0])
    theirs = iter(blobs)
    return tuple((m.member_id, own if m.member_id in raw.own_member_ids else next(theirs)) for m in raw.members)


def _row(process_map: ProcessMap, thread: IntArray) -> IntArray:
    """The member rows of threads; NOBODY stays NOBODY."""
    return np.append(process_map.member, NOBODY)[thread].astype(np.int32)


def _temporary(view: StreamsView, plan: StreamsPlan, tasks: IntArray, target: IntArray) -> IntArray:
    """(row, task) of withheld tasks whose store the new process already keeps: it must not close it for one round."""
    if not len(tasks) or not len(view.previous_standby):
        return np.zeros((0, 2), dtype=np.int32)
    total = max(1, view.tasks.size)
    kept = np.repeat(np.arange(view.size), np.diff(view.previous_standby_first)) * total + view.previous_standby
    wanted = plan.active[tasks].astype(np.int64) * total + tasks
    mine = tasks[view.tasks.stateful[tasks] & among(wanted, kept)]
    return np.stack([target[mine], mine], axis=1).astype(np.int32)


def _next_look_ms(work: _Round, view: StreamsView, plan: StreamsPlan, past: _Past) -> int | None:
    if past.recalled is None:
        return None
    return asks_again_at_ms(past.recalled, TaskLags.of(view, work.configs.acceptable_recovery_lag), plan, work.now_ms)


def _called_back(
    work: _Round,
    tasks: TaskMap,
    plan: StreamsPlan,
    target: IntArray,
    held_back: BoolArray,
    look_again_ms: int | None,
) -> LongArray:
    """When each member shall rejoin. Where a task is withheld its receiver does so at once, as in Kafka.

    Everybody else would be told by the next heartbeat, and the task runs nowhere until the last one has come; so all
    are called. Not again while an owner does not let go of what the last plan gave to nobody: then the round would
    be repeated as fast as they can join, so only those that wait are called, as in Kafka.

    At `look_again_ms` everybody joins again, unless that is done at once anyway.
    """
    decoded, process_map, memory = work.decoded, work.process_map, work.memory
    rows = set(target[held_back].tolist())
    given = memory.plan.owner_in(tasks.cluster, [m.key for m in decoded.members]) != NOBODY
    withheld_now = np.append(held_back, False)[tasks.task_of]  # NOBODY, partitions of no task, is the last
    if rows and given[withheld_now].all():
        rows |= set(process_map.member.tolist())
    later = _asked_for(process_map, plan, rows)
    if look_again_ms is not None and not rows:
        later = [(row, look_again_ms) for row in process_map.member.tolist()]
    return deadlines(len(decoded.members), sorted(rows), later)


def _asked_for(process_map: ProcessMap, plan: StreamsPlan, at_once: Collection[int]) -> list[tuple[int, int]]:
    """(row, epoch ms): a process' deadline goes to its first member, unless that one rejoins at once anyway."""
    first = np.cumsum([0, *[p.capacity for p in process_map.processes]])
    asked = [(int(process_map.member[first[process]]), at_ms) for process, at_ms in plan.deadlines]
    return [(row, at_ms) for row, at_ms in asked if row not in at_once]


def _blind(decoded: DecodedStreams, hosts: Collection[HostInfo]) -> BoolArray:
    """Members with an endpoint of their own that the maps lack: shown maps without it, they would rejoin for ever."""
    texts = decoded.infos.end_point
    unseen = {text for text in set(texts) if text and end_point(text) not in hosts}
    return np.array([text in unseen for text in texts], dtype=np.bool_)
