"""The leader's pure decision: from the bytes of a JoinGroup response to the bytes of a SyncGroup request.

It never raises. If no valid plan can be sent, it returns a Refusal with the reason.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.chain import PlacementStage, PolicyStage, Problem, StageError, run
from bellwether_kafka.assignors.consumer.derived import current_owner
from bellwether_kafka.assignors.consumer.follow_up import (
    LastTarget,
    intended_owner,
    pending_partitions,
    target_to_carry_out,
    unreleased,
)
from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan
from bellwether_kafka.assignors.consumer.registry import BUILT_IN, Policy
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.consumer.views import DecodedGroup, decode_group, group_view
from bellwether_kafka.assignors.shared import ClusterView, Decision, GroupView, IntArray, Memory, Plan, RawGroup
from bellwether_kafka.protocol.bulk import write_assignments
from bellwether_kafka.protocol.messages import STICKY, encode_sticky_user_data

ASSIGNMENT_VERSION = 1
# sarama never writes a subscription above this version (docs/internals/client-quirks.md#what-each-client-writes).
_HIGHEST_SARAMA_VERSION = 2
_LISTED = 5
UNRELEASED = f"has not given up partitions that {shared.REPEATS_MAX + 1} plans in a row took from it"
RACKLESS = "names no rack while others do"  # reported, but a rebalance cannot fix it


def decide(
    raw: RawGroup, cluster: ClusterView, memory: Memory, policy: Policy, now_ms: int, seed: int = 0
) -> Decision[PartitionPlan] | shared.Refusal:
    """Decides one rebalance. Pure: equal arguments give equal results. Never raises."""
    try:
        return _decide(raw, cluster, memory, policy, now_ms, seed)
    except shared.RefusalError as error:
        return error.refusal
    except Exception as error:  # noqa: BLE001 - members and plug-ins are third-party; a raise would block the group
        return shared.Refusal(shared.RefusalCause.PLAN, f"no plan for group {raw.group_id}: {error!r}")


def _decide(
    raw: RawGroup, seen: ClusterView, memory: Memory, policy: Policy, now_ms: int, seed: int
) -> Decision[PartitionPlan]:
    decoded = decode_group(raw)
    cluster = shared.known_cluster(seen, memory, decoded.claims)
    if any(decoded.leader_only):
        cluster = cluster.with_leaders()
    cooperative, kind = policy.cooperative(raw.protocol), policy.claims(raw.protocol)
    group = group_view(decoded, cluster, memory, cooperative=cooperative, kind=kind)
    before = current_owner(group, cluster)
    before.flags.writeable = False
    intended = intended_owner(group, cluster, memory)
    intended.flags.writeable = False
    group = replace(group, current=intended)
    last = target_to_carry_out(group, cluster, memory, policy.rules, policy.name)
    plan, stages, trouble = _plan(Problem(group, cluster, intended, seed), policy, last)
    sent, by = plan.sent, "" if trouble else policy.name
    echoes = _echoes(decoded, group, cluster, sent, memory)
    return Decision(
        raw=raw,
        policy=policy.name,
        decided_at_ms=now_ms,
        seed=seed,
        plan=PartitionPlan(group, cluster, before, plan, decoded.members, echoes, policy.rules, by),
        assignments=_encode(raw, cluster, group, sent, echoes),
        stages=stages,
        warnings=(*trouble, *_warnings(decoded, group, seen, sent, policy)),
    )


def planned_owners(group: GroupView, cluster: ClusterView, policy: Policy) -> IntArray:
    """Returns the owners that the policy would decide on now, per flat partition. Raises RefusalError."""
    return _plan(Problem(group, cluster, current_owner(group, cluster)), policy)[0].owner


def _plan(
    problem: Problem, policy: Policy, last: LastTarget | None = None
) -> tuple[Plan, tuple[shared.StageReport, ...], tuple[str, ...]]:
    """Returns the target of the last plan if it is to be carried out, else the policy's plan if that is valid, else a
    plain sticky plan and a warning. Raises RefusalError."""
    if last is not None:
        with suppress(StageError):
            plan, stages, reason = _tried(problem, [PlacementStage(last), *policy.orders])
            if not reason:
                return plan, stages, ()
    try:
        plan, stages, reason = _tried(problem, policy.chain(problem.group.protocol), policy.clock)
    except shared.UnknownNameError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - stages may be third-party code, and must not block the group
        reason = repr(error)
    if not reason:
        return plan, stages, ()
    plan, stages, findings = _tried(problem, [PlacementStage(BUILT_IN[STICKY], racks=False)])
    if findings:
        reason = f"no valid plan for group {problem.group.group_id}: {findings}"
        raise shared.RefusalError(shared.RefusalCause.PLAN, reason)
    return plan, stages, (f"policy {policy.name} gave no valid plan, so sticky was used: {reason}",)


def _tried(
    problem: Problem, chain: Sequence[PolicyStage], clock: shared.Clock = shared.no_clock
) -> tuple[Plan, tuple[shared.StageReport, ...], str]:
    """Runs a chain, freezes unreadable topics and marks pending partitions. Returns the plan, the reports and any
    findings as text."""
    group, cluster = problem.group, problem.cluster
    planned, stages = run(chain, problem, clock)
    plan = Plan.of(shared.freeze(cluster, problem.before, planned.owner))
    # A list of owned partitions is what a member consumes now, under any protocol (members that revoke first send an
    # empty one). The userData of the eager "sticky" is only history
    # (docs/internals/wire-formats.md#claims-of-a-member).
    holds_claims = group.protocol != STICKY
    if holds_claims and len(group.claims):
        plan = replace(plan, pending=pending_partitions(group, plan.owner))
    return plan, stages, "; ".join(validate(group, cluster, plan, holds_claims=holds_claims))


def _encode(
    raw: RawGroup, cluster: ClusterView, group: GroupView, sent: IntArray, echoes: Mapping[int, bytes]
) -> tuple[tuple[str, bytes], ...]:
    """Returns (member id, assignment) per member. The encoder's last member is Bellwether's own and owns nothing."""
    blobs = write_assignments(
        cluster.topics, cluster.first, sent, group.size + 1, version=ASSIGNMENT_VERSION, user_data=echoes
    )
    assignments = [*zip(group.members.ids, blobs[:-1], strict=True)]
    for position in [i for i, m in enumerate(raw.members) if m.member_id in raw.own_member_ids]:
        assignments.insert(position, (raw.members[position].member_id, blobs[-1]))
    return tuple(assignments)


def _echoes(
    decoded: DecodedGroup, group: GroupView, cluster: ClusterView, sent: IntArray, memory: Memory
) -> dict[int, bytes]:
    """Returns userData by member, only for the "sticky" of sarama, which has no other source for its last assignment
    (docs/internals/client-quirks.md#sarama)."""
    columns = decoded.columns
    if group.protocol != STICKY or (columns.version > _HIGHEST_SARAMA_VERSION).all():
        return {}
    echoes: dict[int, bytes] = {}
    for m, data in enumerate(columns.user_data):
        if m in columns.errors or columns.version[m] > _HIGHEST_SARAMA_VERSION:
            continue
        if data is None or data == memory.echoes.get(group.members[m].key):
            mine = [cluster.name(flat) for flat in np.flatnonzero(sent == m).tolist()]
            echoes[m] = encode_sticky_user_data(mine, group.generation)
    return echoes


def _warnings(
    decoded: DecodedGroup, group: GroupView, cluster: ClusterView, sent: IntArray, policy: Policy
) -> tuple[str, ...]:
    members, columns = group.members, decoded.columns
    holder, asked = unreleased(group, sent)
    refusing = sorted(set(holder[asked > shared.REPEATS_MAX].tolist()))
    degraded = [members.ids[m] for m in sorted(columns.errors)]
    empty = [at for at, topics in enumerate(columns.topic_lists) if not topics]
    topicless = np.flatnonzero(np.isin(columns.topic_list, empty)).tolist() if empty else []
    without = group.rack == shared.NO_RACK
    rackless = [] if without.all() else np.flatnonzero(without).tolist()
    wanted = {topic for topics in columns.topic_lists for topic in topics}
    unreadable = wanted & cluster.unreadable
    unknown = wanted - cluster.unreadable - cluster.index.keys()
    kinds = (
        *(([members.ids[m] for m in rows], f"{reason}: member") for reason, rows in group.distrusted),
        ([members.ids[m] for m in refusing], f"{UNRELEASED}: member"),
        (degraded, "cannot be decoded and keeps its last known partitions: member"),
        ([members.ids[m] for m in topicless], "subscribes to no topic: member"),
        ([members.ids[m] for m in rackless], f"{RACKLESS}: member"),
        (policy.capacities_of_nobody(group), "capacity names no instance id or client id of a member: name"),
        (sorted(unreadable), "metadata could not be read, its assignment is frozen: topic"),
        (sorted(unknown), "does not exist, so no member gets it: topic"),
    )
    return tuple(f"{text} {_listed(names)}" for names, text in kinds if names)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
