"""The commands `bellwether plan` and `explain`: what would happen, and why. They apply nothing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from bellwether_kafka.assignors.explain import FARTHER, Explanation
from bellwether_kafka.assignors.explain import explain as explain_item
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, UnknownItemError
from bellwether_kafka.coordinator.cli import leader
from bellwether_kafka.coordinator.cli.admin import admin_of
from bellwether_kafka.coordinator.cli.cost import cost_of, in_words
from bellwether_kafka.coordinator.cli.offline import installed_version
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, settings_for
from bellwether_kafka.coordinator.cli.output import (
    As,
    Console,
    Exit,
    Output,
    Table,
    count_or_unknown,
    counted,
    echo,
    fail,
    print_document,
    ranges,
)
from bellwether_kafka.coordinator.cli.plan_file import plan_file, write_plan_file
from bellwether_kafka.coordinator.cli.read_groups import (
    AT_MEMBER,
    answer_time_of,
    observe_with_plan,
    owners_called,
    warn_hypothetical,
)
from bellwether_kafka.coordinator.kafka.client import read_size_limit
from bellwether_kafka.coordinator.kafka.wire import BROKER_PROTOCOLS
from bellwether_kafka.coordinator.membership import SizeLimit
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import (
    Observation,
    Removals,
    Shadow,
    removals,
    short_ids,
)
from bellwether_kafka.coordinator.settings import Settings
from bellwether_kafka.coordinator.web import Move, Picture, picture_of

LIMIT_S = 5.0


def plan(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 1 where the plan would move something.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the plan to this file, with the state that it is for.")
    ] = None,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    size_limit = read_size_limit(admin_of(settings.properties), LIMIT_S)
    seen, shadow = observe_with_plan(settings, group)
    changes = _show(settings, seen, shadow, _foreseen(settings, seen, size_limit), output)
    if out is not None:
        _write(out, seen, shadow)
    if detailed_exitcode and changes:
        raise typer.Exit(Exit.NOT_SO)


def _foreseen(settings: Settings, seen: Observation, size_limit: SizeLimit) -> Removals | None:
    """Returns the forecast of a take-over by the same figures as `doctor` and `run`."""
    config = leader.membership_of(settings, seen.group_id)
    if removals(seen, config, size_limit) is None:
        return None
    return removals(seen, config, size_limit, answer_time_of(settings, seen.group_id))


def _write(path: Path, seen: Observation, shadow: Shadow) -> None:
    plan = plan_file(seen, shadow, installed_version())
    try:
        write_plan_file(path, plan)
    except OSError as error:
        fail(f"The plan cannot be written to {path} ({error.strerror}); check --out.")
    echo(f"The plan is in {path}; the digest of the group's state is {plan.digest[:16]}.", err=True)


def _show(
    settings: Settings,
    seen: Observation,
    shadow: Shadow,
    foreseen: Removals | None,
    output: Output,
) -> bool:
    """Prints the plan. Returns whether it would move anything."""
    picture = _picture(seen, shadow)
    cost = cost_of(settings, seen)
    if output.is_document:
        traffic = None if cost is None else {k: v for k, v in cost.items() if k != "weights"}
        more: dict[str, Any] = {"cost": _costs(shadow), "traffic": traffic, "hypothetical": seen.hypothetical}
        more |= {"take_over": None if foreseen is None else asdict(foreseen)}
        print_document(asdict(picture) | more)
    else:
        warn_hypothetical(seen)
        _draw_plan(seen, shadow, foreseen, wide=output is Output.WIDE)
        for line in in_words(cost) if cost is not None else ():
            echo(line)
    return bool(picture.moved or picture.new or picture.lost)


def explain(
    group: Group,
    what: Annotated[
        str | None,
        typer.Argument(help="TOPIC-PARTITION, a task such as 1_5, or a member: its id, also in short."),
    ] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    seen, shadow = observe_with_plan(settings, group)
    names = short_ids(seen) if output is Output.TABLE else {}
    explanations = _explanations(seen, shadow.decision, what, names)
    if output.is_document:
        warn_hypothetical(seen, err=True)  # the list may be empty and cannot show it
        print_document(
            [
                asdict(explanation) | {"hypothetical": seen.hypothetical, "orders": list(shadow.orders)}
                for explanation in explanations
            ],
        )
        return
    warn_hypothetical(seen)
    for order in shadow.orders:
        echo(f"{order}.")
    if not explanations:
        echo("The plan moves nothing. Name a TOPIC-PARTITION, a task or a member to see why it stays.")
    for explanation in explanations:
        _draw_explanation(explanation, names, alternatives=what is not None)


def _explanations(
    seen: Observation, decision: Decision[GroupPlan], what: str | None, names: Mapping[str, str]
) -> list[Explanation]:
    plan = decision.plan
    moved = (plan.owner != plan.before).nonzero()[0].tolist()
    chosen = moved if what is None else _items(seen, plan, what)
    waits = {item: each.sentence for each in seen.hand_overs for item in each.items}
    explained = (explain_item(decision, item, names) for item in chosen)
    return [
        replace(each, sentence=f"{each.sentence} Now {waits[each.item]}.") if each.item in waits else each
        for each in explained
    ]


def _items(seen: Observation, plan: GroupPlan, what: str) -> list[int]:
    """Returns the item of this name, or else a member's items. The prefix `member:` selects the member."""
    try:
        return plan.find(what)
    except UnknownItemError as error:
        owners = owners_called(seen, plan, what.removeprefix(AT_MEMBER))
        if not owners:
            fail(str(error))
        if len(owners) > 1:
            fail(f"{what} may be {listed(owners)}; write more of the id.")
        return plan.find(owners[0])


def show_plan(seen: Observation, shadow: Shadow, output: Output) -> None:
    """Prints a plan that is not carried out, as an order would change it."""
    if output.is_document:
        print_document(asdict(_picture(seen, shadow)) | {"cost": _costs(shadow)})
    else:
        _draw_plan(seen, shadow, None, wide=output is Output.WIDE)


def _picture(seen: Observation, shadow: Shadow) -> Picture:
    """Returns the picture of the plan, with the protocol or broker's assignor that is in use now."""
    return replace(picture_of(shadow.decision), protocol=seen.assigned_with)


def _costs(shadow: Shadow) -> dict[str, dict[str, int | None]]:
    costs = shadow.costs()
    return {"before": costs["current"], "after": costs["planned"]}


def _draw_plan(seen: Observation, shadow: Shadow, foreseen: Removals | None, *, wide: bool) -> None:
    """Prints the plan: a line for each move and each owner of unowned items, then stages, warnings and cost."""
    console = Console(soft_wrap=True)
    picture, names = picture_of(shadow.decision), {} if wide else short_ids(seen)
    console.print(Text(plan_head(seen, picture.policy, picture.protocol)))
    for move in picture.moves:
        console.print(_line(move, names))
    for owner, items in _given(shadow.decision.plan).items():
        console.print(Text.assemble(("  + ", "green"), f"{names.get(owner, owner)}: {items}"))
    more = picture.moved + picture.lost - len(picture.moves)
    if more > 0:
        console.print(Text(f"  and {counted(more, 'more move')}", "dim"))
    for stage in picture.stages:
        console.print(Text(f"  stage {stage.stage}: {stage.reason}", "dim"))
    for warning in picture.warnings:
        console.print(Text(f"  ! {warning}", "yellow"))
    costs = _costs(shadow)
    shown = [(name, now) for name, now in costs["before"].items() if name != "unknown_racks" or now]
    changes = [
        f"{name.replace('_', ' ')} {count_or_unknown(now)} -> {count_or_unknown(costs['after'][name])}"
        for name, now in shown
    ]
    noun = shadow.decision.plan.words.item
    console.print(Text(f"  cost, {noun}s: {', '.join(changes)}"))
    for line in foreseen.sentences() if foreseen is not None else ():
        echo(line)
    console.print(Text(_summary(picture, noun), "bold"))


def plan_head(seen: Observation, policy: str, planned_as: str) -> str:
    """Returns `orders: policy kafka, protocol range`. If a broker assigns, also its assignor and the most similar
    protocol."""
    if seen.kind not in BROKER_PROTOCOLS:
        return f"{seen.group_id}: policy {policy}, protocol {planned_as}"
    now = f"assigned by its broker with {seen.assigned_with or 'an unknown assignor'}"
    return f"{seen.group_id}: {now}; planned with policy {policy} as a classic group of protocol {planned_as}"


def _line(move: Move, names: Mapping[str, str]) -> Text:
    """Returns one move: its item, source and target, the reason (a stage), and the gain."""
    source, target = (names.get(name, name) if name is not None else "nobody" for name in (move.source, move.target))
    sign = ("  - ", "red") if move.target is None else ("  ~ ", "yellow")
    gain = [("; ", "dim"), (move.gain, "dim" if FARTHER in move.gain else "green")] if move.gain else []
    return Text.assemble(sign, f"{move.item}: {source} -> {target}  ", (move.reason, "dim"), *gain)


def _given(plan: GroupPlan) -> dict[str, str]:
    """Returns the unowned items by their new owner: partitions in ranges, or tasks."""
    new = ((plan.before == NOBODY) & (plan.owner != NOBODY)).nonzero()[0]
    tasks = bool(len(new)) and plan.state.task(int(new[0])) is not None
    by_owner: dict[str, list[str]] = defaultdict(list)
    for item, name in zip(new.tolist(), plan.names(new), strict=True):
        by_owner[plan.owners[plan.owner[item]].name].append(name)
    return {owner: _in_short(names, tasks=tasks) for owner, names in by_owner.items()}


def _in_short(names: Sequence[str], *, tasks: bool) -> str:
    if tasks:
        return f"tasks {', '.join(names)}"
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, _, number in (name.rpartition("-") for name in names):
        numbers[topic].append(int(number))
    return "; ".join(f"{topic}: {ranges(partitions)}" for topic, partitions in numbers.items())


def _summary(picture: Picture, noun: str) -> str:
    """Returns for example `Plan: 3 partitions move, 2 that nobody has are given, 7 stay. Nothing was applied.`"""
    parts = [f"{counted(picture.moved, noun)} {'moves' if picture.moved == 1 else 'move'}"]
    parts += [f"{picture.new} that nobody has {'is' if picture.new == 1 else 'are'} given"] * bool(picture.new)
    parts += [f"{picture.lost} {'loses its' if picture.lost == 1 else 'lose their'} owner"] * bool(picture.lost)
    parts += [f"{picture.kept} {'stays' if picture.kept == 1 else 'stay'}"]
    parts += [f"{picture.pending} handed out one rebalance later"] * bool(picture.pending)
    return f"Plan: {', '.join(parts)}. Nothing was applied."


def _draw_explanation(explanation: Explanation, names: Mapping[str, str], *, alternatives: bool) -> None:
    console = Console()
    console.print(Text(explanation.sentence, "bold"))
    if not alternatives:
        return
    table = Table("", "owner", "rack", "has", "cross rack", "spread", "verdict")
    for alternative in explanation.alternatives:
        mark = "*" if alternative.chosen else ""
        owner = names.get(alternative.owner, alternative.owner)
        cells = (
            mark,
            owner,
            alternative.rack or "-",
            str(alternative.item_count),
            f"{alternative.cross_rack:+d}",
            str(alternative.spread),
            alternative.verdict,
        )
        table.add_row(*cells)
    console.print(table)
