"""The commands `bellwether plan` and `explain`: what would happen, and why. They apply nothing."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from bellwether_kafka.assignors.explain import Explanation
from bellwether_kafka.assignors.explain import explain as explain_item
from bellwether_kafka.assignors.shared import Decision, GroupPlan, UnknownItemError
from bellwether_kafka.coordinator.cli.cost import cost_of, in_words
from bellwether_kafka.coordinator.cli.look import look_with_plan, warn_hypothetical
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, settings_for
from bellwether_kafka.coordinator.cli.output import As, Console, Exit, Output, Table, as_json, fail
from bellwether_kafka.coordinator.observation import Shadow
from bellwether_kafka.coordinator.web import Picture, picture_of


def plan(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 4 where the plan would move something.")
    ] = False,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    seen, shadow = look_with_plan(settings, group)
    picture = picture_of(shadow.decision)
    costs = {"before": asdict(shadow.current), "after": asdict(shadow.planned)}
    cost = cost_of(settings, seen)
    if output is Output.JSON:
        traffic = None if cost is None else {k: v for k, v in cost.items() if k != "weights"}
        as_json({**asdict(picture), "cost": costs, "traffic": traffic, "hypothetical": not seen.can_be_led})
    else:
        warn_hypothetical(seen)
        draw_plan(picture, costs)
        for line in in_words(cost) if cost is not None else ():
            typer.echo(line)
    if detailed_exitcode and (picture.moved or picture.new or picture.lost):
        raise typer.Exit(Exit.DIFFERS)


def explain(
    group: Group,
    what: Annotated[str | None, typer.Argument(help="TOPIC-PARTITION, a task such as 1_5, or a member id.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    seen, shadow = look_with_plan(settings, group)
    found = _explanations(shadow.decision, what)
    if output is Output.JSON:
        warn_hypothetical(seen, err=True)  # a list of nothing has no place for it
        as_json([asdict(explanation) | {"hypothetical": not seen.can_be_led} for explanation in found])
        return
    warn_hypothetical(seen)
    if not found:
        typer.echo("The plan moves nothing. Name a TOPIC-PARTITION, a task or a member to be told why it stays.")
    for explanation in found:
        _draw_explanation(explanation, alternatives=what is not None)


def _explanations(decision: Decision[GroupPlan], what: str | None) -> list[Explanation]:
    plan = decision.plan
    try:
        chosen = (plan.owner != plan.before).nonzero()[0].tolist() if what is None else plan.find(what)
    except UnknownItemError as error:
        fail(str(error))
    return [explain_item(decision, item) for item in chosen]


def show_plan(shadow: Shadow, output: Output) -> None:
    """A plan that nobody carries out, as an order would make it."""
    picture, costs = picture_of(shadow.decision), {"before": asdict(shadow.current), "after": asdict(shadow.planned)}
    if output is Output.JSON:
        as_json({**asdict(picture), "cost": costs})
    else:
        draw_plan(picture, costs)


def draw_plan(picture: Picture, cost: Mapping[str, Mapping[str, int]]) -> None:
    """For people: moves, stages, warnings and cost, each before and after."""
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
    changes = [f"{name.replace('_', ' ')} {now} -> {cost['after'][name]}" for name, now in cost["before"].items()]
    console.print(Text(f"  cost, {noun}: {', '.join(changes)}"))
    summary = (
        f"Plan: {picture.moved} to move, {picture.new} to give that nobody has, {picture.kept} stay"
        f" of {picture.total} {noun}; {picture.withheld} would be handed out one round later;"
        f" {picture.cross_rack} read from another rack. Nothing was applied."
    )
    console.print(Text(summary, "bold"))


def _draw_explanation(explanation: Explanation, *, alternatives: bool) -> None:
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
