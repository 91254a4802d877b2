"""The command `bellwether simulate`: what happens if members or racks leave or join, topics grow, or the policy
changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from bellwether_kafka.coordinator.cli.cost import costs_of, in_words, scales_for, short
from bellwether_kafka.coordinator.cli.leader import as_led
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, group_settings, settings_for
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
    run_to_end,
    warn_hypothetical,
)
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.observation import NEWEST, Observation, full_ids
from bellwether_kafka.coordinator.planning import ApplicationError
from bellwether_kafka.coordinator.settings import Leader, Settings
from bellwether_kafka.coordinator.web import Picture, picture_of
from bellwether_kafka.protocol.primitives import TaskId, whole_number

UNKNOWN_SIZE = "of unknown size (the ACL DESCRIBE on Cluster is missing, or an answer)"
AT_RACK = "rack:"
SESSION_S, HEARTBEAT_S = 45.0, 3.0  # the defaults of Kafka's clients: brokers do not show those of members
GUARD_S = 0.2  # from the end of a process to the removal of its members: docs/evidence/README.md#shortens-pauses


def simulate(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="What disappears: member:ID, also in short, or rack:NAME with all members in it."),
    ] = None,
    add: Annotated[int, typer.Option(help="How many members join.", min=0, max=1_000)] = 0,
    add_rack: Annotated[list[str] | None, typer.Option(help="Their racks, in turn.")] = None,
    partitions: Annotated[list[str] | None, typer.Option(help="NAME=N: a topic with N partitions.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Another policy. For comparison also what a broker would do: broker-uniform, broker-range, of an"
            " application broker-sticky."
        ),
    ] = None,
    output: As = Output.TABLE,
) -> None:
    members, without_racks = _leaving(without or ())
    racks = tuple((add_rack or [""])[i % len(add_rack or [""])] for i in range(add))
    topics = _topics(partitions or [])
    settings, _ = settings_for(bootstrap, config, group)
    seen, shadow = observe_with_plan(settings, group)
    change = Change(_in_full(seen, members), without_racks, racks, topics)
    try:
        simulated = _REBALANCES[shadow.decision.plan.words.kind](settings, seen, shadow.decision, change, policy)
    except WhatIfError as error:
        fail(str(error))
    scales = scales_for(settings, seen)
    costs = [] if scales is None else costs_of(scales, shadow.decision, [rebalance.decision for rebalance in simulated])
    release = modelled(seen.broker_version) if policy in (*BROKER_SIDE, BROKER_STICKY) else ""
    if output.is_document:
        traffic: list[dict[str, Any] | None] = [*costs] or [None] * len(simulated)
        flags: dict[str, Any] = {"hypothetical": seen.hypothetical} | ({"release": release} if release else {})
        if members:
            flags |= {"unowned_s_max": SESSION_S + HEARTBEAT_S, "unowned_s_max_with_a_guard": GUARD_S + HEARTBEAT_S}
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
        echo(f"By {policy} as in Kafka {release}.")
    if members:
        echo(crash_in_words(shadow.decision.plan.words.kind))


def crash_in_words(kind: str) -> str:
    """Returns for how long nobody has what a member of this kind of group has, if it ends without leaving."""
    restored = " Then what the next owner lacks is restored." if kind == "streams" else ""
    return (
        f"If it ends without leaving, nobody has its share for at most session.timeout.ms + heartbeat.interval.ms"
        f" ({SESSION_S + HEARTBEAT_S:g} s by default), with a guard for {GUARD_S:g} s + heartbeat.interval.ms, after an"
        f" evacuation for heartbeat.interval.ms.{restored}"
    )


def _leaving(given: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the members and the racks of --without."""
    wrong = [text for text in given if not text.startswith((AT_MEMBER, AT_RACK))]
    if wrong:
        fail(f"--without {wrong[0]} cannot be used; write member:ID or rack:NAME.")
    members = tuple(text.removeprefix(AT_MEMBER) for text in given if text.startswith(AT_MEMBER))
    return members, tuple(text.removeprefix(AT_RACK) for text in given if text.startswith(AT_RACK))


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
            fail(f"--partitions {text} cannot be used; write NAME=N, such as orders=24.")
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
