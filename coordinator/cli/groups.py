"""The commands `bellwether groups`, `bellwether describe GROUP` and `bellwether observe GROUP`: look, join nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.cli.leader import Leader
    from bellwether_kafka.coordinator.kafka import ClusterReader, ListedGroup, Transport
    from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Sources

CONNECT_TIMEOUT_MS = 10_000

groups_app = typer.Typer(pretty_exceptions_enable=False)

Group = Annotated[str, typer.Argument(help="The group id, of an application its application id.")]
Bootstrap = Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")]
Config = Annotated[
    Path | None,
    typer.Option(help="A TOML file; [kafka] and the group's table are used.", envvar="BELLWETHER_CONFIG"),
]


@groups_app.command()
def groups(bootstrap: Bootstrap = None, config: Config = None, output: As = Output.TABLE) -> None:
    """List all groups and who assigns in them."""
    from rich.console import Console
    from rich.table import Table

    found = run(_list(_kafka(bootstrap, config, "any")))
    if output is Output.JSON:
        as_json([asdict(group) for group in found])
        return
    table = Table("group", "assigned by", "type", "state")
    for group in sorted(found, key=lambda g: g.group_id):
        by = "a member" if group.kind in ("", "classic") else f"its broker ({group.kind})"
        table.add_row(group.group_id, by, group.protocol_type or "-", group.state or "-")
    Console().print(table)


@groups_app.command()
def describe(group: Group, bootstrap: Bootstrap = None, config: Config = None, output: As = Output.TABLE) -> None:
    """Show a group: members, what they have, lags, the present plan's cost, and what we would assign."""
    from bellwether_kafka.coordinator.cli.cost import cost_of, in_words
    from bellwether_kafka.coordinator.cli.pipeline import weights_in_words

    seen = run(_look(group, bootstrap, config))
    settings, _ = settings_for(bootstrap, config, group)
    cost = cost_of(settings, seen)
    if output is Output.JSON:
        as_json(as_document(seen) | {"weights": cost and cost.pop("weights"), "traffic": cost})
        return
    _draw(seen)
    for line in [*weights_in_words(cost["weights"]), *in_words(cost)] if cost is not None else ():
        typer.echo(line)


@groups_app.command()
def observe(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=1.0)] = 10.0,
    output: As = Output.TABLE,
) -> None:
    """Show a group again and again until Ctrl-C; as JSON one line per look."""
    show = _draw if output is Output.TABLE else _draw_line
    run(_look(group, bootstrap, config, interval_s=interval, show=show))


def look(group: str, bootstrap: str | None, config: Path | None) -> "Observation":
    """One look at a group; what a setting or a broker spoils ends the process with a sentence."""
    found: Observation = run(_look(group, bootstrap, config))
    return found


def as_document(seen: "Observation") -> dict[str, Any]:
    """An observation as JSON's values; bytes and the decision itself are left out."""
    shadow = seen.shadow
    return {
        "group": seen.group_id,
        "kind": seen.kind,
        "state": seen.state,
        "protocol": seen.protocol,
        "seen_at_ms": seen.seen_at_ms,
        "can_be_led": seen.can_be_led,
        "obstacle": seen.obstacle,
        "trouble": seen.trouble,
        "lag": seen.lag,
        "lags": {topic: list(lags) for topic, lags in seen.lags.items()},
        "members": [asdict(member) | {"owned": [list(tp) for tp in member.owned]} for member in seen.members],
        "shadow": None
        if shadow is None
        else {"current": asdict(shadow.current), "planned": asdict(shadow.planned), "moves": asdict(shadow.moves)},
    }


def _draw_line(seen: "Observation") -> None:
    typer.echo(json.dumps(as_document(seen)))


def _draw(seen: "Observation") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from bellwether_kafka.coordinator.cli.render import ranges

    console = Console()
    led = "can be led" if seen.can_be_led else f"cannot be led: {seen.obstacle}"
    console.print(Text(f"{seen.group_id}: {seen.kind}, {seen.state or '-'}, {seen.protocol or '-'}; {led}"))
    table = Table("member", "client", "rack", "has", "lag")
    for member in seen.members:
        topics = sorted({topic for topic, _ in member.owned})
        parts = [f"{t}: {ranges(sorted(p for topic, p in member.owned if topic == t))}" for t in topics]
        tasks = [f"tasks {', '.join(member.active)}"] * bool(member.active)
        tasks += [f"standby {', '.join(member.standby)}"] * bool(member.standby)
        has = member.trouble or "; ".join(tasks or parts) or "-"
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


async def _look(
    group: str,
    bootstrap: str | None,
    config: Path | None,
    *,
    interval_s: float | None = None,
    show: "Callable[[Observation], None] | None" = None,
) -> "Observation":
    from bellwether_kafka.coordinator.cli.leader import as_led

    settings, _ = settings_for(bootstrap, config, group)
    async with connected(settings.properties) as sources:
        observer = observer_for(settings, group, sources, await asyncio.to_thread(as_led, settings, group))
        seen = await observer.look()
        while show is not None and interval_s is not None:
            show(seen)
            await asyncio.sleep(interval_s)
            seen = await observer.look()
        return seen


@asynccontextmanager
async def connected(properties: Mapping[str, str]) -> "AsyncIterator[Sources]":
    """What a look reads from, open for as long as it takes. Raises TransportError and ClientConfigError."""
    from bellwether_kafka.coordinator.kafka import ClusterReader, OffsetReader, Transport, librdkafka_properties
    from bellwether_kafka.coordinator.observation import Sources

    transport = Transport(properties)
    await transport.start(CONNECT_TIMEOUT_MS)
    reader = ClusterReader(librdkafka_properties(properties))
    offsets = OffsetReader(reader.admin, transport)
    try:
        yield Sources(transport, reader, offsets)
    finally:
        offsets.close()
        reader.close()
        await transport.close()


def observer_for(settings: Any, group: str, sources: Any, leader: "Leader | None" = None) -> "GroupObserver":
    """By what is configured of the group, else by the defaults; its plans are `leader`'s, if that is given."""
    from bellwether_kafka.coordinator.cli.leader import configured
    from bellwether_kafka.coordinator.observation import GroupObserver

    found = next(g for g in settings.groups if g.name == group)
    by = leader or configured(settings, group)
    return GroupObserver(found.membership(settings.instance_id), sources, by.policy, by.application)


async def _list(properties: Mapping[str, str]) -> "list[ListedGroup]":
    async with connected(properties) as sources:
        return await listed(sources.transport, sources.reader)


async def listed(transport: "Transport", reader: "ClusterReader") -> "list[ListedGroup]":
    """All groups of all brokers."""
    found = await asyncio.gather(*(transport.list_groups(node) for node in await reader.nodes()))
    return [group for node in found for group in node]


def settings_for(bootstrap: str | None, config: Path | None, group: str) -> tuple[Any, bool]:
    """The settings, and whether they name the group; what is wrong with them ends the process with a sentence."""
    from bellwether_kafka.coordinator.settings import SettingsError, load

    kafka = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap is not None else {}
    try:
        if config is not None:
            settings = load(config, dict(kafka))
            if any(g.name == group for g in settings.groups):
                return settings, True
        return load(config, {**kafka, "groups": [group]}), False
    except SettingsError as error:
        fail(str(error))


def _kafka(bootstrap: str | None, config: Path | None, group: str) -> dict[str, str]:
    settings, _ = settings_for(bootstrap, config, group)
    properties: dict[str, str] = settings.properties
    return properties


def run(work: Any) -> Any:
    """Runs it; what a setting or a broker spoils ends the process with a sentence."""
    from bellwether_kafka.assignors.shared import UnknownNameError
    from bellwether_kafka.coordinator.kafka import ClientConfigError, ClusterUnreachableError, TransportError
    from bellwether_kafka.coordinator.planning import ApplicationError
    from bellwether_kafka.coordinator.telemetry import configure_logs

    configure_logs("error", "auto")  # standard output is for what was asked
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except (ApplicationError, UnknownNameError, ClientConfigError, ClusterUnreachableError, TransportError) as error:
        fail(str(error))
