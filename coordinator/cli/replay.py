"""The command `bellwether replay`: would today's code, or another policy, decide recorded rounds as they were?"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bellwether_kafka.coordinator.cli.output import As, Exit, Output, as_json, fail

if TYPE_CHECKING:
    from bellwether_kafka.pipeline.records import Replayed

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
    from bellwether_kafka.assignors.consumer import POLICIES
    from bellwether_kafka.assignors.consumer import policy as named
    from bellwether_kafka.assignors.shared import UnknownNameError, load_plugins
    from bellwether_kafka.assignors.streams.policies import STREAMS_POLICIES
    from bellwether_kafka.coordinator.cli.replay_tasks import replay_tasks
    from bellwether_kafka.pipeline.records import HistoryError, read_history, replay_rounds, rounds_of

    try:
        of_tasks = [name for name in policy or [] if name in STREAMS_POLICIES]
        wanted = [name for name in policy or [] if name in POLICIES or name not in STREAMS_POLICIES]
        plugins = load_plugins([name for name in wanted if name not in POLICIES])
        policies = {name: named(name, plugins) for name in wanted}
        recorded = read_history(file)
    except UnknownNameError as error:
        fail(f"The policy cannot be used: {error}; stock ones are {', '.join(POLICIES)}.")
    except HistoryError as error:
        fail(str(error))
    groups = recorded.snapshots.keys() | recorded.rounds.keys()
    unknown = sorted(set(group or []) - groups)
    if unknown:
        fail(f"The history has no group {unknown[0]}; it has {', '.join(sorted(groups))}.")
    for reason, count in sorted(recorded.refused.items()):
        typer.echo(f"{count} records were left out: {reason}.", err=True)
    left_out = sorted(recorded.assignments.keys() - groups)
    if left_out:
        typer.echo(f"Left out, as their rounds were not recorded whole: {', '.join(left_out)}.", err=True)
    found: list[Replayed] = []
    for name in sorted(group or groups):
        rounds, plans = recorded.snapshots.get(name, []), recorded.assignments.get(name, [])
        if policies or not policy:
            found += replay_rounds(rounds_of(rounds, plans, recorded.sources), policies, recorded.weights())
        if of_tasks or not policy:
            found += replay_tasks(recorded.rounds.get(name, []), plans, of_tasks, recorded.weights())
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
        what = one.failed or f"{one.differs} of {one.partitions} would be placed otherwise"
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
