"""The command `bellwether top`: all groups at a glance, again and again. Joins nothing."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bellwether_kafka.coordinator.cli import groups as cli_groups
from bellwether_kafka.coordinator.cli.groups import Bootstrap, Config
from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail

if TYPE_CHECKING:
    from rich.table import Table

    from bellwether_kafka.coordinator.cli.top_table import Row, Told
    from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Sources

PAGE_TIMEOUT_S = 2.0
PAGE_BYTES_MAX = 10_000_000
LOOKS_AT_ONCE = 8
LISTED_TYPES = ("consumer", "")

top_app = typer.Typer(pretty_exceptions_enable=False)


@top_app.command()
def top(
    group: Annotated[list[str] | None, typer.Argument(help="Groups; all that are there unless some are named.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    url: Annotated[
        list[str] | None,
        typer.Option(help="The page of a sidecar, such as http://127.0.0.1:9790: it tells generation and last cause."),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.5)] = 3.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Show groups live: who leads, generation, members, lag, cost, the last cause; as JSON a document per look."""
    for address in url or []:
        if not address.startswith(("http://", "https://")):
            fail(f"--url {address} cannot be used; write http://host:port.")
    cli_groups.run(_top(group or [], bootstrap, config, url or [], None if once else interval, output))


async def _top(
    names: Sequence[str], bootstrap: Any, config: Any, urls: Sequence[str], interval_s: float | None, output: Output
) -> None:
    from rich.console import Console
    from rich.live import Live

    settings, _ = cli_groups.settings_for(bootstrap, config, names[0] if names else "any")
    instance_ids = [settings.instance_id, *(g.instance_id for g in settings.groups)]
    console = Console()
    live = output is Output.TABLE and interval_s is not None
    async with cli_groups.connected(settings.properties) as sources:
        observers: dict[str, GroupObserver] = {}
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) if live else nullcontext() as screen:
            while True:
                for name in names or await _listed(sources):
                    if name not in observers:
                        found, _ = cli_groups.settings_for(bootstrap, config, name)
                        observers[name] = cli_groups.observer_for(found, name, sources)
                rows = await _look(list(observers.values()), urls, instance_ids)
                if output is Output.JSON:
                    _print(rows, one=interval_s is None)
                elif screen is not None:
                    screen.update(_table(rows), refresh=True)
                else:
                    console.print(_table(rows))
                if interval_s is None:
                    return
                await asyncio.sleep(interval_s)


async def _listed(sources: "Sources") -> list[str]:
    found = await cli_groups.listed(sources.transport, sources.reader)
    return sorted(g.group_id for g in found if g.protocol_type in LISTED_TYPES or g.kind in ("consumer", "streams"))


async def _look(
    observers: "Sequence[GroupObserver]", urls: Sequence[str], instance_ids: Sequence[str | None]
) -> "list[Row]":
    from bellwether_kafka.coordinator.cli.top_table import ordered, row_of

    told = await asyncio.to_thread(_told, urls)
    turns = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(one: "GroupObserver") -> "Observation":
        async with turns:
            return await _seen(one)

    return ordered([row_of(seen, told, instance_ids) for seen in await asyncio.gather(*map(look, observers))])


async def _seen(observer: "GroupObserver") -> "Observation":
    """One group that cannot be looked at now is a line that says so, and not the end of all."""
    from bellwether_kafka.coordinator.kafka import TransportError
    from bellwether_kafka.coordinator.observation import Observation

    try:
        return await observer.look()
    except TransportError as error:
        return Observation(observer.group_id, "missing", "", "", int(time.time() * 1000), trouble=str(error))


def _told(urls: Sequence[str]) -> "Told":
    """What the pages say that answer; one that does not is as good as none."""
    from bellwether_kafka.coordinator.cli.top_table import Told

    groups: list[Any] = []
    lines: list[Any] = []
    for url in urls:
        try:
            groups += _fetched(f"{url.rstrip('/')}/api/groups")
            lines += _fetched(f"{url.rstrip('/')}/decisions")
        except (OSError, ValueError):
            continue
    return Told.of(groups, lines)


def _fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PAGE_TIMEOUT_S) as answer:  # noqa: S310 - http(s) only, checked
        return json.loads(answer.read(PAGE_BYTES_MAX))


def _print(rows: "Sequence[Row]", *, one: bool) -> None:
    document = [asdict(row) for row in rows]
    if one:
        as_json(document)
    else:
        typer.echo(json.dumps(document))


def _table(rows: "Sequence[Row]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    columns = (
        "group",
        "led by",
        "state",
        "generation",
        "members",
        "lag",
        "cross rack",
        "our plan",
        "last cause",
        "ago",
    )
    table = Table(*columns, title=f"{len(rows)} groups", expand=True)
    now_ms = time.time() * 1000
    for row in rows:
        ago = "-" if row.cause_at_ms is None else f"{max(0.0, now_ms - row.cause_at_ms) / 1000:.0f} s"
        numbers = [row.generation, row.members, row.lag, row.cross_rack, row.could_be]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        cells = [row.group, row.leader, row.state or "-", *shown, row.cause or "-", ago]
        table.add_row(*map(Text, cells), style="bold yellow" if row.unowned else None)
    return table
