"""Why a partition or a task is where it is: who had it, which stage decided, and what each alternative would cost.

Elasticsearch's allocation explain is the model. Pure: everything is told from the decision, nothing is decided again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer import Decision, crossing, imbalance
from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray
from bellwether_kafka.assignors.streams import StreamsDecision
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

ALTERNATIVES_MAX = 50


@dataclass(frozen=True, slots=True)
class Alternative:
    """One member (or process) that could have it. `verdict` is a sentence; `chosen` marks the plan's own answer.

    `held` is how many it has in the plan, `cross_rack` how many more (or fewer) would be read from another rack.
    """

    owner: str
    rack: str | None
    held: int
    allowed: bool
    chosen: bool
    cross_rack: int
    spread: int
    verdict: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`stage` is the stage that put it where it is; `before` and `after` are None for nobody."""

    item: str
    before: str | None
    after: str | None
    stage: str
    withheld: bool
    sentence: str
    alternatives: tuple[Alternative, ...]


def stage_of(decision: Decision, flat: int) -> str:
    """The last stage that changed the owner of this partition."""
    owner, found = NOBODY, ""
    for stage in decision.stages:
        if stage.owner is not None and stage.taken and int(stage.owner[flat]) != owner:
            owner, found = int(stage.owner[flat]), stage.stage
    return found


def explain_partition(decision: Decision, flat: int) -> Explanation:
    """`flat` is a flat partition of the decision's cluster."""
    group, cluster, owner = decision.group, decision.cluster, decision.plan.owner
    name = cluster.name(flat)
    item, stage = f"{name.topic}-{name.partition}", stage_of(decision, flat)
    before, after = _member(decision, int(decision.before[flat])), _member(decision, int(owner[flat]))
    withheld = bool(decision.plan.withheld[flat])
    topic = cluster.index[name.topic]
    allowed = [m for m in range(group.size) if topic in group.topic_sets[group.topic_set[m]]]
    order = sorted(allowed, key=lambda m: (m != owner[flat], m != decision.before[flat], m))[:ALTERNATIVES_MAX]
    return Explanation(
        item=item,
        before=before,
        after=after,
        stage=stage,
        withheld=withheld,
        sentence=_sentence(item, before, after, stage, withheld=withheld),
        alternatives=_alternatives(decision, flat, order),
    )


def explain_task(decision: StreamsDecision, task: int) -> Explanation:
    """`task` is an index into the decision's tasks."""
    view, plan = decision.view, decision.plan
    item = str(view.tasks.task_id(task))
    before, after = _process(decision, int(decision.before[task])), _process(decision, int(plan.active[task]))
    withheld = bool(decision.withheld[task])
    order = sorted(range(view.size), key=lambda p: (p != plan.active[task], p != decision.before[task], p))
    stage = _task_stage(decision, task)
    return Explanation(
        item=item,
        before=before,
        after=after,
        stage=stage,
        withheld=withheld,
        sentence=_sentence(item, before, after, stage, withheld=withheld),
        alternatives=_task_alternatives(decision, task, order[:ALTERNATIVES_MAX]),
    )


def _sentence(item: str, before: str | None, after: str | None, stage: str, *, withheld: bool) -> str:
    by = f" ({stage})" if stage else ""
    if after is None:
        return f"{item} has no owner: nobody who may have it can be given it."
    if before == after:
        return f"{item} stays with {after}{by}."
    if before is None:
        return f"{item} had no owner and goes to {after}{by}."
    later = ", one round later, when its owner has given it up" if withheld else ""
    return f"{item} goes from {before} to {after}{later}{by}."


def _alternatives(decision: Decision, flat: int, order: Sequence[int]) -> tuple[Alternative, ...]:
    """One for each of these members; what is the same for all of them is worked out once."""
    group, owner = decision.group, decision.plan.owner
    held = np.bincount(owner[owner != NOBODY], minlength=group.size)
    now, spread = _crossing(decision, flat, owner), imbalance(group, decision.cluster, owner)[0]
    return tuple(_alternative(decision, flat, member, int(held[member]), now, spread) for member in order)


def _alternative(decision: Decision, flat: int, member: int, held: int, now: int, spread: int) -> Alternative:
    group, cluster, owner = decision.group, decision.cluster, decision.plan.owner
    view = group.members[member]
    if member == owner[flat]:
        return Alternative(view.member_id, view.rack, held, True, True, 0, spread, "It is the plan's answer.")
    moved = np.array(owner)
    moved[flat] = member
    then = _crossing(decision, flat, moved) - now
    worse = imbalance(group, cluster, moved)[0]
    verdict = _verdict(then, worse - spread, held_before=member == decision.before[flat])
    return Alternative(view.member_id, view.rack, held, True, False, then, worse, verdict)


def _verdict(cross: int, spread: int, *, held_before: bool) -> str:
    costs = []
    if cross > 0:
        costs.append("it would be read from another rack")
    if spread > 0:
        costs.append(f"the counts would be {spread} further apart")
    gains = ["it would be local"] * (cross < 0) + [f"the counts would be {-spread} closer"] * (spread < 0)
    stays = "it would stay where it was" if held_before else ""
    parts = [*(["but " + " and ".join(costs)] if costs else []), *gains]
    text = ", ".join(filter(None, [stays, *parts])) or "no better and no worse: an equal plan"
    return f"{text[0].upper()}{text[1:]}."


def _crossing(decision: Decision, flat: int, owner: IntArray) -> int:
    return int(crossing(decision.group, decision.cluster, owner)[flat])


def _member(decision: Decision, member: int) -> str | None:
    return None if member == NOBODY else decision.group.members[member].member_id


def _process(decision: StreamsDecision, process: int) -> str | None:
    return None if process == NOBODY else str(decision.view.processes[process].process_id)


def _task_stage(decision: StreamsDecision, task: int) -> str:
    """Which part of the policy placed the task: a stage that says so, a warm-up's detour, or the base placement."""
    active, before = int(decision.plan.active[task]), int(decision.before[task])
    warm = decision.plan.standby_task[decision.plan.warmup]
    if task in warm.tolist():
        return "task movement: waits where it is caught up while its target warms up"
    stage = _refined_by(decision, task)
    if stage:
        return stage
    if active == before:
        return f"placement by {decision.policy}: its owner keeps it"
    return f"placement by {decision.policy}"


def _refined_by(decision: StreamsDecision, task: int) -> str:
    """The last configured stage that gave the task to another process than the stages before it, "" for none. Tasks
    with state go through the stages first, the others after them."""
    owner, found = NOBODY, ""
    kind = "stateful tasks" if decision.view.tasks.stateful[task] else "stateless tasks"
    for stage in decision.stages:
        if not stage.stage.endswith(f", {kind}"):
            continue
        if stage.owner is not None and stage.taken and int(stage.owner[task]) != owner:
            found = "" if owner == NOBODY else stage.stage
            owner = int(stage.owner[task])
    return found


def _task_alternatives(decision: StreamsDecision, task: int, order: Sequence[int]) -> tuple[Alternative, ...]:
    """The same for processes."""
    active = decision.plan.active
    held = np.bincount(active[active != NOBODY], minlength=decision.view.size)
    now = _remote(decision, task, int(active[task]))
    return tuple(_task_alternative(decision, task, process, held, now) for process in order)


def _task_alternative(decision: StreamsDecision, task: int, process: int, held: LongArray, now: int) -> Alternative:
    who, owner = decision.view.processes[process], int(decision.plan.active[task])
    chosen = process == owner
    cross = _remote(decision, task, process) - now
    counts = held.copy()
    if not chosen:
        counts[process] += 1
        if owner != NOBODY:
            counts[owner] -= 1
    spread = int(counts.max() - counts.min())
    verdict = "It is the plan's answer." if chosen else _lag_sentence(decision, task, process, cross)
    return Alternative(str(who.process_id), who.rack, int(held[process]), True, chosen, cross, spread, verdict)


def _lag_sentence(decision: StreamsDecision, task: int, process: int, cross: int) -> str:
    lag = lag_of(decision, task, process)
    parts = []
    if not decision.view.tasks.stateful[task]:
        parts.append("has no state to restore")
    elif _hides(decision, task, process):
        parts.append("had it before its restart, and has not said yet how much of it is left")
    elif lag == LATEST_OFFSET:
        parts.append("runs it now, so nothing would be restored")
    elif lag == UNKNOWN_OFFSET_SUM:
        parts.append("has a lag that is not known")
    elif lag <= decision.configs.acceptable_recovery_lag:
        parts.append(f"is caught up ({lag} records behind)")
    else:
        parts.append(f"would restore {lag} records first")
    if cross > 0:
        parts.append(f"{cross} more partitions would be read from another rack")
    elif cross < 0:
        parts.append(f"{-cross} fewer partitions would be read from another rack")
    return f"It {', '.join(parts)}."


def _hides(decision: StreamsDecision, task: int, process: int) -> bool:
    """Whether the report of this process is remembered and not made."""
    hidden, report = decision.view.report_hidden, decision.view.report
    return len(hidden) > 0 and bool((hidden[report.span(process)] & (report[process] == task)).any())


def lag_of(decision: StreamsDecision, task: int, process: int) -> int:
    """What this process would have to restore of the task, in records, or one of Kafka's two sentinels. What is only
    remembered counts as almost nothing."""
    view = decision.view
    reported = view.report[process]
    at = int(np.searchsorted(reported, task))
    if at < len(reported) and reported[at] == task:
        return int(view.report_lag[view.report.span(process)][at])
    return int(view.tasks.end_sum[task])


def _remote(decision: StreamsDecision, task: int, process: int) -> int:
    view, table = decision.view, decision.view.tasks
    if process == NOBODY or view.rack[process] < 0:
        return 0  # no rack, or one without a broker: nothing to compare
    return int(table.source_remote[table.source_signature[task], view.rack[process]])
