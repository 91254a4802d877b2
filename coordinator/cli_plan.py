"""The commands `bellwether plan`, `explain` and `simulate`: what would happen, why, and what if. They apply nothing."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli_groups import Bootstrap, Config, Group
from coordinator.cli_output import As, Exit, Output, as_json, fail

if TYPE_CHECKING:
    from assignors.decide import Decision
    from assignors.explain import Explanation
    from assignors.registry import Policy
    from assignors.streams.result import StreamsDecision
    from coordinator.observe import Observation
    from coordinator.picture import Picture

PARTITION_PARTS = 2

plan_app = typer.Typer(pretty_exceptions_enable=False)


@plan_app.command()
def plan(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 4 where the plan would move something.")
    ] = False,
) -> None:
    """Show what the configured policy would change in a group now. Applies nothing."""
    picture = _picture(_decision(group, bootstrap, config))
    if output is Output.JSON:
        as_json(asdict(picture))
    else:
        _draw_plan(picture)
    if detailed_exitcode and (picture.moved or picture.new or picture.lost):
        raise typer.Exit(Exit.DIFFERS)


@plan_app.command()
def explain(
    group: Group,
    what: Annotated[str | None, typer.Argument(help="TOPIC-PARTITION, a task such as 1_5, or a member id.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
) -> None:
    """Say why something is where the plan puts it and what alternatives would cost; of every move, if none is named."""
    found = _explanations(_decision(group, bootstrap, config), what)
    if output is Output.JSON:
        as_json([asdict(explanation) for explanation in found])
        return
    if not found:
        typer.echo("The plan moves nothing. Name a TOPIC-PARTITION, a task or a member to be told why it stays.")
    for explanation in found:
        _draw_explanation(explanation, alternatives=what is not None)


@plan_app.command()
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
    decision = _decision(group, bootstrap, config)
    if not isinstance(decision, Decision):
        fail(f"{group} is a Streams application; simulate knows plain consumer groups only.")
    racks = tuple((add_rack or [""])[i % len(add_rack or [""])] for i in range(add))
    change = Change(tuple(without_member or ()), tuple(without_rack or ()), racks, _topics(topic or []))
    try:
        pictures = _rounds(decision, change, _policy(policy[0] if policy else _policy_name(config, group)))
    except WhatIfError as error:
        fail(str(error))
    if output is Output.JSON:
        as_json([asdict(picture) for picture in pictures])
        return
    _draw_rounds(pictures)


# ---- looking and planning --------------------------------------------------------------------------------------------


def _decision(group: str, bootstrap: Any, config: Any) -> "Decision | StreamsDecision":
    """The shadow plan of an observed group, or the end with a sentence."""
    from coordinator.cli_groups import look

    seen: Observation = look(group, bootstrap, config)
    if seen.shadow is None:
        fail(f"There is nothing to plan in {group}: {seen.trouble or seen.obstacle or 'it has no members'}.")
    return seen.shadow.decision


def _picture(decision: "Decision | StreamsDecision") -> "Picture":
    from assignors.decide import Decision
    from coordinator.picture import consumers_of, tasks_of

    return consumers_of(decision) if isinstance(decision, Decision) else tasks_of(decision)


def _explanations(decision: "Decision | StreamsDecision", what: str | None) -> "list[Explanation]":
    import numpy as np

    from assignors.decide import Decision
    from assignors.explain import explain_partition, explain_task
    from assignors.model import NOBODY

    if isinstance(decision, Decision):
        owner, before, show = decision.plan.owner, decision.before, explain_partition
        chosen = _partitions(decision, what)
    else:
        owner, before, show = decision.plan.active, decision.before, explain_task  # type: ignore[assignment]  # same shape
        chosen = _tasks(decision, what)
    if chosen is None:
        chosen = np.flatnonzero((owner != before) & ~((owner == NOBODY) & (before == NOBODY))).tolist()
    return [show(decision, item) for item in chosen]  # type: ignore[arg-type]  # chosen together above


def _partitions(decision: "Decision", what: str | None) -> list[int] | None:
    import numpy as np

    if what is None:
        return None
    ids = [member.member_id for member in decision.group.members]
    if what in ids:
        return list(map(int, np.flatnonzero(decision.plan.owner == ids.index(what))))
    topic, _, number = what.rpartition("-")
    flat = decision.cluster.flat(topic, int(number)) if number.isdigit() else None
    if flat is None:
        topics = ", ".join(decision.cluster.topics)
        fail(f"{what} is neither a partition (TOPIC-N of {topics}) nor a member of the group.")
    return [flat]


def _tasks(decision: "StreamsDecision", what: str | None) -> list[int] | None:
    import numpy as np

    if what is None:
        return None
    table = decision.view.tasks
    for i, process in enumerate(decision.view.processes):
        if what in (str(process.process_id), *process.members):
            return list(map(int, np.flatnonzero(decision.plan.active == i)))
    found = [task for task in range(table.size) if str(table.task_id(task)) == what]
    if not found:
        fail(f"{what} is neither a task (such as {table.task_id(0)}) nor a process or thread of the application.")
    return found


def _rounds(decision: "Decision", change: Any, policy: "Policy") -> "list[Picture]":
    from assignors.memory import Memory
    from assignors.whatif import ROUNDS_MAX, changed, rounds
    from coordinator.observe_runner import NEWEST
    from coordinator.picture import consumers_of

    members = decision.group.members
    # Newer than whatever members claim, with room for the rounds to come.
    memory = Memory.of(NEWEST - 2 * ROUNDS_MAX, decision.cluster, decision.before, members)
    raw, cluster = changed(decision.raw, decision.cluster, change)
    made = rounds(raw, cluster, memory, policy, decision.decided_at_ms)
    return [consumers_of(one, made[i - 1] if i else decision) for i, one in enumerate(made)]


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


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _draw_plan(picture: "Picture") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    noun = "tasks" if picture.kind == "streams" else "partitions"
    console.print(Text(f"{picture.group}: policy {picture.policy}, protocol {picture.protocol}"))
    for move in picture.moves:
        change = f"{move.item}: {move.source} -> {move.target or 'nobody'}  "
        console.print(Text.assemble(("  ~ ", "yellow"), change, (move.reason, "dim")))
    for stage in picture.stages:
        console.print(Text(f"  stage {stage.stage}: {stage.reason}", "dim"))
    for warning in picture.warnings:
        console.print(Text(f"  ! {warning}", "yellow"))
    summary = (
        f"Plan: {picture.moved} to move, {picture.new} to give that nobody has, {picture.kept} stay"
        f" of {picture.total} {noun}; {picture.withheld} would be handed out one round later;"
        f" {picture.cross_rack} read from another rack. Nothing was applied."
    )
    console.print(Text(summary, "bold"))


def _draw_explanation(explanation: "Explanation", *, alternatives: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(explanation.sentence, "bold"))
    if not alternatives:
        return
    table = Table("", "owner", "rack", "has", "cross rack", "spread", "verdict")
    for one in explanation.alternatives:
        mark = "*" if one.chosen else ""
        cells = (mark, one.owner, one.rack or "-", str(one.held), f"{one.cross_rack:+d}", str(one.spread), one.verdict)
        table.add_row(*map(Text, cells))
    console.print(table)


def _draw_rounds(pictures: "Iterable[Picture]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("round", "why", "moved", "new", "withheld", "cross rack", "unowned")
    pictures = list(pictures)
    for number, one in enumerate(pictures, 1):
        counts = (one.moved, one.new, one.withheld, one.cross_rack, one.unowned)
        table.add_row(str(number), Text(one.cause), *map(str, counts))
    console = Console()
    console.print(table)
    total = sum(one.moved for one in pictures)
    console.print(Text(f"Stable after {len(pictures)} rounds and {total} moves. Nothing was applied.", "bold"))
