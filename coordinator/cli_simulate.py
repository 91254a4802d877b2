"""The command `bellwether simulate`: what if members or racks disappear or come, topics grow, or the policy changes?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli_cost import costs_of, in_words, scales_for, short
from coordinator.cli_groups import Bootstrap, Config, settings_for
from coordinator.cli_output import As, Output, as_json, fail
from coordinator.cli_plan import seen_with_plan

if TYPE_CHECKING:
    from assignors.decide import Decision
    from assignors.registry import Policy
    from assignors.streams.decide import Assignors
    from assignors.streams.result import StreamsDecision
    from coordinator.observe import Observation
    from coordinator.picture import Picture
    from protocol.types import TaskId

simulate_app = typer.Typer(pretty_exceptions_enable=False)


@simulate_app.command()
def simulate(
    group: Annotated[str | None, typer.Argument(help="The group id; none with --history.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    without_member: Annotated[list[str] | None, typer.Option(help="A member that disappears, by id.")] = None,
    without_rack: Annotated[list[str] | None, typer.Option(help="A rack whose members disappear.")] = None,
    add: Annotated[int, typer.Option(help="How many members join.", min=0, max=1_000)] = 0,
    add_rack: Annotated[list[str] | None, typer.Option(help="Their racks, in turn.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="NAME=N: a topic with N partitions.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Another policy; with --history several.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="A file written by `bellwether history`: replay it under other policies.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Say what a change would cause: rounds until the group is stable, moves and cost. Applies nothing."""
    from assignors.decide import Decision
    from assignors.whatif import Change, WhatIfError

    if history is not None:
        from coordinator.cli_pipeline import replay_history

        replay_history(history, policy or (), as_json=output is Output.JSON)
        return
    if group is None:
        fail("Name a group, or give a history with --history.")
    racks = tuple((add_rack or [""])[i % len(add_rack or [""])] for i in range(add))
    change = Change(tuple(without_member or ()), tuple(without_rack or ()), racks, _topics(topic or []))
    seen, shadow = seen_with_plan(group, bootstrap, config)
    try:
        if isinstance(shadow.decision, Decision):
            found = _rounds(shadow.decision, change, _policy(policy[0] if policy else _policy_name(config, group)))
        else:
            sizes = _sizes(shadow.decision, group, bootstrap, config)
            found = _rounds_of_tasks(seen, shadow.decision, change, policy[0] if policy else None, config, sizes)
    except WhatIfError as error:
        fail(str(error))
    scales = scales_for(settings_for(bootstrap, config, group)[0], seen)
    costs = [] if scales is None else costs_of(scales, shadow.decision, [one.decision for one in found])
    if output is Output.JSON:
        traffic: list[dict[str, Any] | None] = [*costs] or [None] * len(found)
        as_json([{**asdict(o.picture), **o.of_state, "traffic": t} for o, t in zip(found, traffic, strict=True)])
        return
    draw_rounds(found, costs)


@dataclass(frozen=True, slots=True)
class Imagined:
    """One round that has not been. `of_state`: what an application restores in it, nothing for consumers."""

    decision: "Decision | StreamsDecision"
    picture: "Picture"
    of_state: dict[str, Any]


def _rounds(decision: "Decision", change: Any, policy: "Policy") -> list[Imagined]:
    from assignors.memory import Memory
    from assignors.whatif import ROUNDS_MAX, changed, rounds
    from coordinator.observe_runner import NEWEST
    from coordinator.picture import consumers_of

    members = decision.group.members
    # Newer than whatever members claim, with room for the rounds to come.
    memory = Memory.of(NEWEST - 2 * ROUNDS_MAX, decision.cluster, decision.before, members)
    raw, cluster = changed(decision.raw, decision.cluster, change)
    made = rounds(raw, cluster, memory, policy, decision.decided_at_ms)
    return [Imagined(one, consumers_of(one, made[i - 1] if i else decision), {}) for i, one in enumerate(made)]


def _sizes(decision: "StreamsDecision", group: str, bootstrap: Any, config: Any) -> "dict[TaskId, int]":
    """Bytes of each task's changelogs on disk: what a copy reads that begins with nothing. Empty without the right to
    ask."""
    from coordinator import cli_groups
    from coordinator.transport import TransportError

    cluster = decision.cluster
    counts = {t: int(cluster.counts[cluster.index[t]]) for t in decision.topology.changelogs if t in cluster.index}
    settings, _ = cli_groups.settings_for(bootstrap, config, group)

    async def ask() -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        async with cli_groups.connected(settings.properties) as sources:
            for node in await sources.reader.nodes():
                try:
                    sizes = await sources.transport.log_sizes(node, counts)
                except TransportError:
                    continue  # as many as can be known
                found |= {tp: max(size, found.get(tp, 0)) for tp, size in sizes.items()}
        return found

    known: dict[tuple[str, int], int] = cli_groups.run(ask())
    return task_bytes(decision, known)


def task_bytes(decision: "StreamsDecision", sizes: "Mapping[tuple[str, int], int]") -> "dict[TaskId, int]":
    """By task, from bytes by partition; only of tasks all of whose changelogs are known."""
    table, found = decision.view.tasks, {}
    changelogs = {subtopology.id: subtopology.changelogs for subtopology in decision.topology.subtopologies}
    for task in map(table.task_id, range(table.size)):
        parts = [sizes.get((topic, task.partition)) for topic in changelogs[task.subtopology]]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            found[task] = sum(known)
    return found


def _rounds_of_tasks(
    seen: "Observation",
    decision: "StreamsDecision",
    change: Any,
    policy: str | None,
    config: Any,
    sizes: "Mapping[TaskId, int]",
) -> list[Imagined]:
    from assignors.streams.assign import STREAMS_POLICIES
    from assignors.streams.decide import STOCK
    from assignors.streams.whatif import Held, rounds_of_tasks
    from coordinator.picture import tasks_of

    if policy is not None and policy not in STREAMS_POLICIES:
        fail(f"The policy {policy} is not known for applications; stock ones are {', '.join(STREAMS_POLICIES)}.")
    held = {m.member_id: Held(tuple(map(_task, m.active)), tuple(map(_task, m.standby))) for m in seen.members}
    assignors = STOCK if policy is not None else _assignors(config, seen.group_id)
    made = rounds_of_tasks(decision, held, change, policy or decision.policy, assignors)
    imagined = []
    for i, one in enumerate(made):
        warmups = int(one.decision.plan.warmup.sum())
        known = [sizes[task] for task in one.copies if task in sizes]
        state = {
            "restored": one.restored,
            "restored_bytes": sum(known) if len(known) == len(one.copies) else None,
            "copies": len(one.copies),
            "warmups": warmups,
            "waits_for_probing": one.probing,
        }
        picture = tasks_of(one.decision, made[i - 1].decision if i else decision)
        imagined.append(Imagined(one.decision, picture, state))
    return imagined


def _task(text: str) -> "TaskId":
    from protocol.types import TaskId

    subtopology, _, partition = text.partition("_")
    return TaskId(int(subtopology), int(partition))


def _assignors(config: Any, group: str) -> "Assignors":
    """As configured of the application, with its stages."""
    from assignors.streams.decide import STOCK
    from coordinator.applications import ApplicationError, load_application
    from coordinator.settings import SettingsError, load

    try:
        known = [g for g in load(config).groups if g.name == group] if config is not None else []
        streams = known[0].streams if known else None
        return load_application(streams).assignors if streams is not None else STOCK
    except (SettingsError, ApplicationError) as error:
        fail(str(error))


def _topics(given: list[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdigit() or not name:
            fail(f"--topic {text} cannot be used; write NAME=N, such as orders=24.")
        found[name] = int(number)
    return found


def _policy_name(config: Any, group: str) -> str:
    from coordinator.settings import SettingsError, load

    if config is None:
        return "kafka"
    try:
        return next((g.policy for g in load(config).groups if g.name == group), "kafka")
    except SettingsError as error:
        fail(str(error))


def _policy(name: str) -> "Policy":
    from assignors.registry import POLICIES, UnknownNameError, load_plugins, policy

    try:
        return policy(name, load_plugins([name] if name not in POLICIES else []))
    except UnknownNameError as error:
        fail(f"The policy cannot be used: {error}.")


def draw_rounds(found: Sequence[Imagined], costs: Sequence[Mapping[str, Any]]) -> None:
    """`costs` has one entry a round, or none where nothing is weighed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    of_state = ("restores", "bytes", "copies", "warm-ups", "then") if found and found[0].of_state else ()
    of_cost = ("then across racks",) if costs else ()
    table = Table("round", "why", "moved", "new", "withheld", "cross rack", "unowned", *of_state, *of_cost)
    for number, one in enumerate(found, 1):
        picture, state = one.picture, one.of_state
        counts = (picture.moved, picture.new, picture.withheld, picture.cross_rack, picture.unowned)
        cells: list[str | Text] = [str(number), Text(picture.cause), *map(str, counts)]
        if state:
            then = "waits for probing" if state["waits_for_probing"] else "at once" if picture.withheld else "at rest"
            size = "-" if state["restored_bytes"] is None else f"{state['restored_bytes']:,}"
            cells += [f"{state['restored']:,}", size, str(state["copies"]), str(state["warmups"]), then]
        cells += [short(costs[number - 1]["planned"])] if costs else []
        table.add_row(*cells)
    console = Console()
    console.print(table)
    moved = sum(one.picture.moved for one in found)
    restored = sum(one.of_state.get("restored", 0) for one in found)
    sizes = [one.of_state.get("restored_bytes") for one in found]
    size = "of unknown size (ACL DESCRIBE on Cluster)" if None in sizes else f"with {sum(filter(None, sizes)):,} bytes"
    reads = f" {restored:,} records {size} are restored." if of_state else ""
    if costs:
        whole = {**costs[-1], "present": costs[0]["present"]}
        for line in in_words(whole, "afterwards"):
            typer.echo(line)
    console.print(Text(f"Stable after {len(found)} rounds and {moved} moves.{reads} Nothing was applied.", "bold"))
