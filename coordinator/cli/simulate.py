"""The command `bellwether simulate`: what happens if members or racks leave or join, topics grow, or the policy
changes, and what the restart, crash or removal of a member would cost, with and without a guard or an evacuation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from bellwether_kafka.assignors.broker_side import modelled
from bellwether_kafka.assignors.consumer import (
    BROKER_SIDE,
    REBALANCES_MAX,
    PartitionPlan,
    broker_side,
    changed,
    rebalances,
)
from bellwether_kafka.assignors.shared import Change, Decision, GroupPlan, Memory, UnknownNameError, WhatIfError
from bellwether_kafka.assignors.streams import STOCK, Assignors, HeldTasks, TaskPlan, rebalances_of_tasks
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, STREAMS_POLICIES, assign_broker_sticky
from bellwether_kafka.coordinator.cli.cost import RateUrl, RestoreRate, costs_of, in_words, scales_for, short
from bellwether_kafka.coordinator.cli.cost import restore_rate as rate_of
from bellwether_kafka.coordinator.cli.leader import as_led
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, group_settings, settings_for
from bellwether_kafka.coordinator.cli.output import (
    As,
    Console,
    Output,
    Table,
    count_or_unknown,
    counted,
    echo,
    fail,
    print_document,
)
from bellwether_kafka.coordinator.cli.read_groups import (
    AT_MEMBER,
    connected,
    observe_with_plan,
    owners_called,
    run_to_end,
    warn_hypothetical,
)
from bellwether_kafka.coordinator.cli.replay import replay_history
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.names import for_shell, listed
from bellwether_kafka.coordinator.observation import (
    GUARD,
    NEWEST,
    AbsenceCost,
    Ending,
    Observation,
    Pace,
    Shadow,
    absence_cost,
    cost_document,
    full_ids,
    is_eager,
    short_ids,
)
from bellwether_kafka.coordinator.planning import ApplicationError
from bellwether_kafka.coordinator.settings import Leader, Settings
from bellwether_kafka.coordinator.web import Picture, picture_of
from bellwether_kafka.protocol.primitives import TaskId, whole_number

UNKNOWN_SIZE = "of unknown size (the ACL DESCRIBE on Cluster is missing, or an answer)"


def simulate(
    group: Annotated[str | None, typer.Argument(help="The group id; with --history all if none.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    without_member: Annotated[
        list[str] | None, typer.Option(help="A member that disappears, by its id, also in short.")
    ] = None,
    without_rack: Annotated[list[str] | None, typer.Option(help="A rack whose members disappear.")] = None,
    add: Annotated[int, typer.Option(help="How many members join.", min=0, max=1_000)] = 0,
    add_rack: Annotated[list[str] | None, typer.Option(help="Their racks, in turn.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="NAME=N: a topic with N partitions.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Another policy; with --history several. For comparison also what a broker would do:"
            " broker-uniform, broker-range, of an application broker-sticky."
        ),
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="A file written by `bellwether history`: replay it under other policies.")
    ] = None,
    restart: Annotated[
        list[str] | None, typer.Option(help="member:ID, also in short: what its restart would cost, in seconds.")
    ] = None,
    crash: Annotated[list[str] | None, typer.Option(help="member:ID: what its crash would cost.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="member:ID: what it would cost to scale it in.")] = None,
    restore_rate: RestoreRate = None,
    url: RateUrl = None,
    session_timeout_ms: Annotated[int, typer.Option(help="session.timeout.ms of the members.", min=1)] = 45_000,
    heartbeat_interval_ms: Annotated[int, typer.Option(help="heartbeat.interval.ms of the members.", min=1)] = 3_000,
    output: As = Output.TABLE,
) -> None:
    if history is not None:
        replay_history(history, group, policy or (), output)
        return
    if group is None:
        fail("Name a group, or give a history with --history.")
    ended = {Ending.RESTART: restart or (), Ending.CRASH: crash or (), Ending.REMOVE: remove or ()}
    if any(ended.values()):
        if any((without_member, without_rack, add, topic, policy)):
            fail("--restart, --crash and --remove describe the group as it is; leave out the options that change it.")
        pace = Pace(session_timeout_ms, heartbeat_interval_ms, rate_of(restore_rate, url, group))
        print_absences(*observe_with_plan(settings_for(bootstrap, config, group)[0], group), ended, pace, output)
        return
    racks = tuple((add_rack or [""])[i % len(add_rack or [""])] for i in range(add))
    topics = _topics(topic or [])
    settings, _ = settings_for(bootstrap, config, group)
    seen, shadow = observe_with_plan(settings, group)
    change = Change(_in_full(seen, without_member or ()), tuple(without_rack or ()), racks, topics)
    name = policy[0] if policy else None
    try:
        simulated = _REBALANCES[shadow.decision.plan.words.kind](settings, seen, shadow.decision, change, name)
    except WhatIfError as error:
        fail(str(error))
    scales = scales_for(settings, seen)
    costs = [] if scales is None else costs_of(scales, shadow.decision, [rebalance.decision for rebalance in simulated])
    release = modelled(seen.broker_version) if name in (*BROKER_SIDE, BROKER_STICKY) else ""
    if output.is_document:
        traffic: list[dict[str, Any] | None] = [*costs] or [None] * len(simulated)
        flags = {"hypothetical": seen.hypothetical} | ({"release": release} if release else {})
        print_document(
            [
                {**asdict(o.picture), **o.of_state, "traffic": t, **flags}
                for o, t in zip(simulated, traffic, strict=True)
            ],
        )
        return
    warn_hypothetical(seen)
    draw_rebalances(simulated, costs, (shadow.cross_rack, shadow.current.unowned))
    if release:
        echo(f"By {name} as in Kafka {release}.")


def print_absences(
    seen: Observation, shadow: Shadow, ended: Mapping[Ending, Sequence[str]], pace: Pace, output: Output
) -> None:
    decision, names = shadow.decision, [owner.name for owner in shadow.decision.plan.owners]
    costs = []
    for ending, texts in ended.items():
        for text in texts:
            owners = owners_called(seen, decision.plan, text.removeprefix(AT_MEMBER))
            if len(owners) != 1:
                what = f"may be {listed(owners)}; write more of the id" if owners else "is no member of the group"
                fail(f"{text} {what}; see 'bellwether describe {for_shell(seen.group_id)}'.")
            costs.append(absence_cost(ending, decision, shadow.present, names.index(owners[0]), pace))
    everybody = is_eager(decision.plan.words.kind, decision.raw.protocol)
    if output.is_document:
        flags = {"hypothetical": seen.hypothetical, "pauses_everybody": everybody}
        print_document([{**cost_document(cost), **flags} for cost in costs])
        return
    warn_hypothetical(seen)
    draw_absences(costs, short_ids(seen) if output is Output.TABLE else {}, everybody=everybody)


def draw_absences(costs: Sequence[AbsenceCost], names: Mapping[str, str], *, everybody: bool) -> None:
    table = Table("if", "member", "has", "without an owner for", "with", "for", "restored", "beforehand")
    for cost in costs:
        restored = "-" if cost.restored is None else f"{cost.restored:,}"
        beforehand = "" if cost.by == GUARD else _seconds(cost.beforehand_s)
        member = names.get(cost.member, cost.member)
        spent = (_seconds(cost.as_it_is.seconds), cost.by, _seconds(cost.helped.seconds))
        table.add_row(cost.ending.value, member, str(cost.items), *spent, restored, beforehand)
    Console().print(table)
    for line in dict.fromkeys(f"No evacuation: {cost.unhelped}." for cost in costs if cost.unhelped):
        echo(line)
    if any(None in (cost.as_it_is.seconds, cost.helped.seconds) for cost in costs):
        echo("Unknown where the rate or the lag of a restoration is not known: --restore-rate, --url.")
    if everybody:
        echo("The group is eager: every rebalance also pauses all other members, for a heartbeat interval or longer.")
    echo("Seconds are upper bounds. Nothing was applied.")


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.1f} s"


def _in_full(seen: Observation, given: Sequence[str]) -> tuple[str, ...]:
    """Returns the full ids of members given in short. Ambiguous or unknown ones are unchanged and refused later."""
    pairs = [(text, full_ids(seen, text)) for text in given]
    return tuple(ids[0] if len(ids) == 1 else text for text, ids in pairs)


@dataclass(frozen=True, slots=True)
class SimulatedRebalance:
    """A simulated rebalance. `of_state`: what an application would restore in it; empty for consumers."""

    decision: Decision[GroupPlan]
    picture: Picture
    of_state: dict[str, Any]


def _rebalances(
    settings: Settings, seen: Observation, decision: Decision[PartitionPlan], change: Change, name: str | None
) -> list[SimulatedRebalance]:
    policy = broker_side(name) if name in BROKER_SIDE else _leader(settings, seen.group_id, name).policy
    members = decision.plan.group.members
    # A generation newer than any that members report, with room for the rebalances that follow.
    memory = Memory.of(NEWEST - 2 * REBALANCES_MAX, decision.cluster, decision.plan.before, members)
    raw, cluster = changed(decision.raw, decision.cluster, change)
    made = rebalances(raw, cluster, memory, policy, decision.decided_at_ms)
    return [
        SimulatedRebalance(rebalance, _picture(rebalance, made[:i], decision), {}) for i, rebalance in enumerate(made)
    ]


def _picture(
    decision: Decision[GroupPlan], earlier: Sequence[Decision[GroupPlan]], present: Decision[GroupPlan]
) -> Picture:
    """Returns the picture of a rebalance that follows the earlier ones."""
    return picture_of(decision.counted_after(earlier[-1]), earlier[-1]) if earlier else picture_of(decision, present)


def _sizes(decision: Decision[TaskPlan], settings: Settings) -> dict[TaskId, int]:
    """Returns the bytes on disk of each task's changelogs, which an empty copy would read. Empty without the right,
    or an answer."""
    cluster = decision.cluster
    counts = {t: int(cluster.counts[cluster.index[t]]) for t in decision.plan.topology.changelogs if t in cluster.index}

    async def ask() -> dict[tuple[str, int], int]:
        async with connected(settings) as sources:
            try:
                return await sources.transport.largest_logs(await sources.reader.nodes(), counts)
            except TransportError:
                return {}

    sizes: dict[tuple[str, int], int] = run_to_end(ask())
    return task_bytes(decision, sizes)


def task_bytes(decision: Decision[TaskPlan], sizes: Mapping[tuple[str, int], int]) -> dict[TaskId, int]:
    """Returns bytes by task, from bytes by partition. Only tasks whose changelogs are all known are included."""
    table, by_task = decision.plan.view.tasks, {}
    changelogs = {subtopology.id: subtopology.changelogs for subtopology in decision.plan.topology.subtopologies}
    for task in map(table.task_id, range(table.size)):
        parts = [sizes.get((topic, task.partition)) for topic in changelogs[task.subtopology]]
        sizes_known = [part for part in parts if part is not None]
        if len(sizes_known) == len(parts):
            by_task[task] = sum(sizes_known)
    return by_task


def _rebalances_of_tasks(
    settings: Settings, seen: Observation, decision: Decision[TaskPlan], change: Change, name: str | None
) -> list[SimulatedRebalance]:
    sizes, assignors = _sizes(decision, settings), _assignors(settings, seen, name)
    tasks_of = {m.member_id: HeldTasks(tuple(map(_task, m.active)), tuple(map(_task, m.standby))) for m in seen.members}
    made = rebalances_of_tasks(decision, tasks_of, change, name or decision.policy, assignors)
    simulated = []
    for i, step in enumerate(made):
        warmups = int(step.decision.plan.target.warmup.sum())
        sizes_known = [sizes[task] for task in step.copies if task in sizes]
        state = {
            "restored": step.restored,
            "restored_bytes": sum(sizes_known) if len(sizes_known) == len(step.copies) else None,
            "copies": len(step.copies),
            "warmups": warmups,
            "waits_for_probing": step.probing,
        }
        picture = _picture(step.decision, [each.decision for each in made[:i]], decision)
        simulated.append(SimulatedRebalance(step.decision, picture, state))
    return simulated


_REBALANCES: Mapping[str, Callable[..., list[SimulatedRebalance]]] = {
    "consumer": _rebalances,
    "streams": _rebalances_of_tasks,
}


def _task(text: str) -> TaskId:
    subtopology, _, partition = text.partition("_")
    return TaskId(int(subtopology), int(partition))


def _assignors(settings: Settings, seen: Observation, policy: str | None) -> Assignors:
    """Returns the application's configured assignors, with its stages; STOCK if it is not configured."""
    if policy == BROKER_STICKY:
        return replace(STOCK, assign=partial(assign_broker_sticky, release=modelled(seen.broker_version)))
    if policy is not None and policy not in STREAMS_POLICIES:
        fail(f"The policy {policy} is not known for applications; stock ones are {', '.join(STREAMS_POLICIES)}.")
    if group_settings(settings, seen.group_id).streams is None:
        return STOCK
    application = _leader(settings, seen.group_id, policy).application
    return application.assignors if application is not None else STOCK


def _leader(settings: Settings, group: str, policy: str | None) -> Leader:
    try:
        return as_led(settings, group, policy)
    except UnknownNameError as error:
        fail(str(error))
    except ApplicationError as error:
        fail(str(error))


def _topics(given: list[str]) -> dict[str, int]:
    counts = {}
    for text in given:
        name, _, number = text.partition("=")
        partitions = whole_number(number)
        if partitions is None or not name:
            fail(f"--topic {text} cannot be used; write NAME=N, such as orders=24.")
        counts[name] = partitions
    return counts


def draw_rebalances(
    simulated: Sequence[SimulatedRebalance], costs: Sequence[Mapping[str, Any]], now: tuple[int | None, int]
) -> None:
    """Draws the rebalances. `costs` has one entry for each, or is empty without weights. `now` is (partitions read
    across racks, partitions without an owner)."""
    of_state = ("restores", "bytes", "copies", "warm-ups", "then") if simulated and simulated[0].of_state else ()
    of_cost = ("then across racks",) if costs else ()
    table = Table("rebalance", "why", "moved", "new", "pending", "cross rack", "unowned", *of_state, *of_cost)
    weighed = [short(costs[0]["present"])] if costs else []
    table.add_row("now", "", "", "", "", *map(count_or_unknown, now), *("" for _ in of_state), *weighed)
    for number, step in enumerate(simulated, 1):
        picture, state = step.picture, step.of_state
        counts = (picture.moved, picture.new, picture.pending, picture.cross_rack, picture.unowned)
        cells = [str(number), picture.cause, *map(count_or_unknown, counts)]
        if state:
            then = "waits for probing" if state["waits_for_probing"] else "at once" if picture.pending else "at rest"
            size = "-" if state["restored_bytes"] is None else f"{state['restored_bytes']:,}"
            cells += [f"{state['restored']:,}", size, str(state["copies"]), str(state["warmups"]), then]
        cells += [short(costs[number - 1]["planned"])] if costs else []
        table.add_row(*cells)
    console = Console()
    console.print(table)
    moved = sum(step.picture.moved for step in simulated)
    restored = sum(step.of_state.get("restored", 0) for step in simulated)
    sizes = [step.of_state.get("restored_bytes") for step in simulated]
    size = UNKNOWN_SIZE if None in sizes else f"with {sum(filter(None, sizes)):,} bytes"
    reads = f" {restored:,} records {size} are restored." if of_state else ""
    if costs:
        whole = {**costs[-1], "present": costs[0]["present"]}
        for line in in_words(whole, "afterwards"):
            echo(line)
    console.print(
        Text(
            f"Stable after {counted(len(simulated), 'rebalance')} and {counted(moved, 'move')}.{reads}"
            " Nothing was applied.",
            "bold",
        )
    )
