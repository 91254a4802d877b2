"""The command `bellwether replay`: would today's code, or another policy, decide recorded rounds as they were?"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli_output import As, Exit, Output, as_json, fail

if TYPE_CHECKING:
    from pipeline.replay import Replayed

DIFFERENCES_SHOWN = 5

replay_app = typer.Typer(pretty_exceptions_enable=False)


@replay_app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A file that `bellwether history` has written.")],
    policy: Annotated[list[str] | None, typer.Option(help="Decide by this policy instead; may be repeated.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be repeated.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Decide recorded rounds again, from what their leader had, and show where plans differ; exits 4 if any does."""
    from assignors.registry import POLICIES, UnknownNameError, load_plugins
    from assignors.registry import policy as named
    from pipeline.history import HistoryError, read_history
    from pipeline.replay import replay_rounds, rounds_of

    try:
        plugins = load_plugins([name for name in policy or [] if name not in POLICIES])
        policies = {name: named(name, plugins) for name in policy or []}
        recorded = read_history(file)
    except UnknownNameError as error:
        fail(f"The policy cannot be used: {error}; stock ones are {', '.join(POLICIES)}.")
    except HistoryError as error:
        fail(str(error))
    unknown = sorted(set(group or []) - recorded.snapshots.keys())
    if unknown:
        fail(f"The history has no group {unknown[0]}; it has {', '.join(sorted(recorded.snapshots))}.")
    for reason, count in sorted(recorded.refused.items()):
        typer.echo(f"{count} records were left out: {reason}.", err=True)
    applications = sorted(recorded.assignments.keys() - recorded.snapshots.keys())
    if applications:
        names = ", ".join(applications)
        typer.echo(f"Left out, as rounds of applications are not recorded whole: {names}.", err=True)
    found = [
        one
        for name in sorted(group or recorded.snapshots)
        for one in replay_rounds(
            rounds_of(recorded.snapshots[name], recorded.assignments[name]), policies, recorded.weights()
        )
    ]
    if not found:
        fail(f"The history {file} holds no plan beside its snapshots; record it again with `bellwether history`.")
    if output is Output.JSON:
        as_json([{**asdict(one), "same": one.same} for one in found])
    else:
        _draw_replayed(found)
    if not all(one.same for one in found):
        raise typer.Exit(Exit.DIFFERS)


def _draw_replayed(found: "Sequence[Replayed]") -> None:
    for one in found:
        if one.same:
            continue
        what = one.failed or f"{one.differs} of {one.partitions} partitions would have another owner"
        doubt = f" ({one.doubt})" if one.doubt else ""
        typer.echo(
            f"{one.group}, generation {one.generation}: {one.recorded_policy} then, {one.policy} now: {what}{doubt}"
        )
        for name in ("moved", "unowned", "cross_rack", "spread") if one.now and one.recorded else ():
            then, now = getattr(one.recorded, name), getattr(one.now, name)
            if then != now:
                typer.echo(f"    {name.replace('_', ' ')}: {then} then, {now} now")
        for change in one.differences[:DIFFERENCES_SHOWN]:
            typer.echo(f"    {change.item}: {change.recorded or 'nobody'} then, {change.now or 'nobody'} now")
    same = sum(one.same for one in found)
    typer.echo(f"Replayed {len(found)} rounds: {same} the same, {len(found) - same} different.")
