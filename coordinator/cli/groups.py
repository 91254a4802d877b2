"""The commands `bellwether groups`, `bellwether describe GROUP` and `bellwether observe GROUP`: look, join nothing."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from bellwether_kafka.coordinator.cli.cost import cost_of, in_words, weights_in_words
from bellwether_kafka.coordinator.cli.look import (
    BROKER,
    LISTED_TYPES,
    LOOKS_AT_ONCE,
    MEMBER,
    all_groups,
    connected,
    look,
    observer_of,
    of_a_group,
    run_to_end,
    who_assigns,
)
from bellwether_kafka.coordinator.cli.options import ANY_GROUP, Bootstrap, Config, Group, settings_for
from bellwether_kafka.coordinator.cli.output import As, Console, Output, Table, as_json, fail, ranges
from bellwether_kafka.coordinator.kafka import ListedGroup, TransportError
from bellwether_kafka.coordinator.membership import is_sidecar
from bellwether_kafka.coordinator.observation import Observation, as_document
from bellwether_kafka.coordinator.planning import STABLE
from bellwether_kafka.coordinator.settings import Settings

REBALANCING = "rebalancing"  # brokers tell what members have when the group is at rest again


def groups(bootstrap: Bootstrap = None, config: Config = None, output: As = Output.TABLE) -> None:
    settings, _ = settings_for(bootstrap, config, ANY_GROUP)
    found = run_to_end(_list(settings))
    if output is Output.JSON:
        as_json([asdict(group) | {"assigned_by": by} for group, by in found])
        return
    table = Table("group", "assigned by", "protocol type", "state")
    for group, by in found:
        table.add_row(*map(Text, (group.group_id, by, group.protocol_type or "-", group.state or "-")))
    Console().print(table)


def describe(group: Group, bootstrap: Bootstrap = None, config: Config = None, output: As = Output.TABLE) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    seen = look(settings, group)
    if seen.kind == "missing":
        fail(f"Nothing can be told of the group {group}: {seen.trouble}.")
    cost = cost_of(settings, seen)
    if output is Output.JSON:
        as_json(as_document(seen) | {"weights": cost and cost.pop("weights"), "traffic": cost})
        return
    _draw(seen)
    for line in [*weights_in_words(cost["weights"]), *in_words(cost)] if cost is not None else ():
        typer.echo(line)


def observe(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=1.0)] = 10.0,
    output: As = Output.TABLE,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    show = _draw if output is Output.TABLE else lambda seen: typer.echo(json.dumps(as_document(seen)))
    with suppress(KeyboardInterrupt):
        run_to_end(_observe(settings, group, interval, show))


async def _list(settings: Settings) -> list[tuple[ListedGroup, str]]:
    """All groups by name, and who assigns in each."""
    config = settings.groups[0].membership(settings.instance_id)
    async with connected(settings.properties) as sources:
        found = sorted(await all_groups(sources.transport, sources.reader), key=lambda g: g.group_id)
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def by(group: ListedGroup) -> str:
            if group.type not in ("", "classic"):
                return f"{BROKER} ({group.type})"
            if group.protocol_type not in LISTED_TYPES:
                return MEMBER
            async with turns:
                try:
                    members = (await sources.transport.describe_group(group.group_id)).members
                except TransportError:
                    return MEMBER  # a group that cannot be looked at now
            return who_assigns(sidecar=any(is_sidecar(m, config) for m in members), others=bool(members))

        return list(zip(found, await asyncio.gather(*map(by, found)), strict=True))


async def _observe(settings: Settings, group: str, interval_s: float, show: Callable[[Observation], None]) -> None:
    async with observer_of(settings, group) as observer:
        show(of_a_group(await observer.look()))
        while True:
            await asyncio.sleep(interval_s)
            show(await observer.look())


def _draw(seen: Observation) -> None:
    console = Console()
    console.print(Text(f"{seen.group_id}: {seen.kind}, {seen.state or '-'}, {seen.protocol or '-'}; {seen.verdict}"))
    table = Table("member", "client", "rack", "has", "lag")
    at_rest = seen.kind != "classic" or seen.state == STABLE
    for member in seen.members:
        topics = sorted({topic for topic, _ in member.owned})
        parts = [f"{t}: {ranges(sorted(p for topic, p in member.owned if topic == t))}" for t in topics]
        tasks = [f"tasks {', '.join(member.active)}"] * bool(member.active)
        tasks += [f"standby {', '.join(member.standby)}"] * bool(member.standby)
        has = member.trouble or "; ".join(tasks or parts) or ("-" if at_rest else REBALANCING)
        lag = "-" if member.lag is None else str(member.lag)
        # Text, because what clients choose may look like markup.
        table.add_row(*map(Text, (member.member_id, member.client_id, member.rack or "-", has, lag)))
    console.print(table)
    if seen.trouble:
        console.print(Text(seen.trouble))
    if seen.shadow is not None:
        costs = Table("", "unowned", "cross rack", "spread")
        for name, cost in (("now", seen.shadow.current), ("our plan", seen.shadow.planned)):
            costs.add_row(name, str(cost.unowned), str(cost.cross_rack), str(cost.spread))
        console.print(costs)
        moves = seen.shadow.moves
        console.print(Text(f"our plan keeps {moves.kept}, moves {moves.moved}, gives {moves.new} that nobody has"))
