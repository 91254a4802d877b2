"""The command `bellwether assess`: what groups cost, what Bellwether would avoid, and what to begin with. It joins no
group and changes nothing."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from bellwether_kafka.coordinator.assessment import (
    Assessment,
    GhostRefreshes,
    Grid,
    Prices,
    assess_refreshes,
    document,
    grids,
    headline,
    lines,
    page,
    period_of_records,
)
from bellwether_kafka.coordinator.cli.cost import Scales, scales_of
from bellwether_kafka.coordinator.cli.leader import under_orders
from bellwether_kafka.coordinator.cli.options import (
    FOR_HELP,
    WAIT_S_MAX,
    Bootstrap,
    Config,
    duration_ms,
    group_settings,
    settings_without_group,
)
from bellwether_kafka.coordinator.cli.output import (
    Console,
    Output,
    Table,
    echo,
    echo_lines,
    fail,
    output_option,
    print_document,
)
from bellwether_kafka.coordinator.cli.read_groups import (
    LISTED_TYPES,
    REFRESHES_AT_ONCE,
    all_groups,
    connected,
    observer_for,
    run_to_end,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Sources
from bellwether_kafka.coordinator.replay import History, HistoryError, read_history
from bellwether_kafka.coordinator.settings import Settings, SettingsError

MODERN_TYPES = ("consumer", "streams")


def assess(
    group: Annotated[list[str] | None, typer.Argument(help="Group ids; all groups if none is given.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    for_: Annotated[str | None, typer.Option("--for", help=f"{FOR_HELP}.")] = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between refreshes during --for.", min=0.5, max=WAIT_S_MAX)
    ] = 5.0,
    history: Annotated[
        Path | None, typer.Option(help="A file that `bellwether debug history` has written: adds what was recorded.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Of the history only from then on, such as 2026-03-01T08:00; UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Of the history only up to then; UTC.")] = None,
    output: Annotated[
        Output, output_option("How to print it; html: a page to share, in one file.", Output.HTML)
    ] = Output.TABLE,
) -> None:
    if (since or until) and history is None:
        fail("--since and --until are of a history; name one with --history.")
    settings = settings_without_group(bootstrap, config)
    past, span_ms = _recorded(history), (_epoch_ms(since, 0), _epoch_ms(until, int(time.time() * 1000)))
    for_s = duration_ms(for_) / 1000 if for_ is not None else 0.0
    seen = run_to_end(_refresh(settings, group or (), for_s, interval))
    prices = _prices(settings, [refresh for refreshes, _ in seen for refresh in refreshes], past)
    assessments = []
    for refreshes, ghosts in seen:
        name = refreshes[-1].group_id
        recorded = (period_of_records(name, past, *span_ms, prices.per_gb),) if past is not None else ()
        assessments.append(assess_refreshes(refreshes, prices, ghosts, recorded))
    _print(assessments, output)


def _print(assessments: Sequence[Assessment], output: Output) -> None:
    if output is Output.HTML:
        echo_lines(page(assessments), nl=False)
    elif output.is_document:
        print_document([document(assessment) for assessment in assessments])
    else:
        for assessment in assessments:
            _draw(assessment)


def _draw(assessment: Assessment) -> None:
    console = Console()
    console.print(Text(headline(assessment), "bold"))
    for grid in grids(assessment):
        draw_grid(console, grid)
    for finding in assessment.findings:
        console.print(Text.assemble((f"{finding.words}: ", "yellow"), finding.message))
        if finding.avoided:
            console.print(Text(f"  Bellwether: {finding.avoided}", "green"))
        if finding.remedy:
            console.print(Text(f"  it cannot: {finding.remedy}"))
    if not assessment.findings:
        console.print(Text("Nothing was found that costs."))
    for line in lines(assessment):
        console.print(Text(f"not known: {line}", "dim"))
    console.print(Text("to begin with:"))
    for line in assessment.configuration.splitlines():
        console.print(Text(f"  {line}"))
    console.print(Text(""))


def draw_grid(console: Console, grid: Grid) -> None:
    table = Table(*grid.columns, title=grid.title)
    for row in grid.rows:
        table.add_row(*row)
    console.print(table)


def _recorded(path: Path | None) -> History | None:
    if path is None:
        return None
    try:
        history = read_history(path)
    except HistoryError as error:
        fail(str(error))
    for reason, count in sorted(history.refused.items()):
        echo(f"{count} records were left out: {reason}.", err=True)
    return history


def _epoch_ms(text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{text} is no time; write it as 2026-03-01T08:00, in UTC.")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _prices(settings: Settings, refreshes: Sequence[Observation], past: History | None) -> Prices:
    topics = {topic for refresh in refreshes for member in refresh.members for topic in member.topics}
    return prices_of(settings, scales_of(settings, topics, past.weights() if past is not None else None))


def prices_of(settings: Settings, scales: Scales | None) -> Prices:
    """Returns what plans are priced with. Without scales bytes are unknown."""
    cost = settings.cost
    plain = Prices(per_gb=cost.price_per_gb, currency=cost.currency) if cost is not None else Prices()
    return plain if scales is None else replace(plain, weights=scales.weights, near=scales.near)


Refreshed = tuple[list[Observation], GhostRefreshes]


async def _refresh(settings: Settings, groups: Sequence[str], for_s: float, interval_s: float) -> list[Refreshed]:
    """Returns the refreshes of each group, by name. Ends the process with a sentence if a named group does not
    exist."""
    async with connected(settings) as sources:
        names = list(dict.fromkeys(groups)) or await _all(sources)
        if not names:
            fail("The brokers have no group that could be assessed.")
        observers = [await _observer(settings, name, sources) for name in names]
        turns, deadline = asyncio.Semaphore(REFRESHES_AT_ONCE), time.monotonic() + for_s
        refreshed: list[Refreshed] = [([], ghosts) for _, ghosts in observers]

        async def observe(observer: GroupObserver, refreshes: list[Observation]) -> None:
            async with turns:
                seen = await observer.observe()
            if seen.shadow is not None:  # the newest plan is enough, and a plan may be large
                refreshes[:] = [replace(refresh, shadow=None) for refresh in refreshes]
            refreshes.append(seen)

        while True:
            pairs = zip(observers, refreshed, strict=True)
            await asyncio.gather(*(observe(observer, refreshes) for (observer, _), (refreshes, _) in pairs))
            if groups:
                _all_exist([refreshes[0] for refreshes, _ in refreshed])
            if time.monotonic() + interval_s > deadline:
                return _assessable(refreshed, named=bool(groups))
            await asyncio.sleep(interval_s)


def _all_exist(seen: Sequence[Observation]) -> None:
    """Ends the process with a sentence if any of these groups does not exist."""
    missing = [each.group_id for each in seen if each.kind == "missing"]
    if missing:
        fail(f"There is no group {listed(missing)}; see 'bellwether groups'.")


def _assessable(refreshed: Sequence[Refreshed], *, named: bool) -> list[Refreshed]:
    """Returns what was read of each group that can be assessed, and reports what could not be read. Ends the process
    with a sentence if brokers have answered for none."""
    assessable: list[Refreshed] = []
    for refreshes, ghosts in refreshed:
        last, read = refreshes[-1], [each for each in refreshes if each.unknown is None]
        unread = next((each.unknown for each in reversed(refreshes) if each.unknown is not None), None)
        if unread is not None and read:
            times = f"{len(refreshes) - len(read)} of {len(refreshes)} times"
            echo(f"{last.group_id} could not be read {times}: {unread.reason}.", err=True)
        elif unread is not None or (named and last.kind == "other"):
            echo(f"{last.group_id} is left out: {last.trouble or last.obstacle}.", err=True)
        if read and read[-1].kind not in ("missing", "other"):
            assessable.append((read, ghosts))
    if not assessable and all(refreshes[-1].unknown is not None for refreshes, _ in refreshed):
        fail("No group could be read.")
    return assessable


async def _observer(settings: Settings, group: str, sources: Sources) -> tuple[GroupObserver, GhostRefreshes]:
    try:
        options = group_settings(settings, group).ghost_options
    except SettingsError as error:
        fail(str(error))
    ghosts = GhostRefreshes(group, client_ids_unique=options is not None and options.client_ids_unique)

    def observe(_group: str, answer: DescribeAnswer) -> None:
        ghosts.observe(answer, int(time.time() * 1000))

    leader = await asyncio.to_thread(under_orders, settings, group)
    return observer_for(settings, group, sources, leader, on_seen=(observe,)), ghosts


async def _all(sources: Sources) -> list[str]:
    groups = await all_groups(sources.transport, sources.reader)
    return sorted(
        {group.group_id for group in groups if group.type in MODERN_TYPES or group.protocol_type in LISTED_TYPES}
    )
