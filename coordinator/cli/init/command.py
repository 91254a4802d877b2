"""The command `bellwether init`: asks, reads the cluster, writes a file and loads it again. It joins no group."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient

from bellwether_kafka.coordinator.assessment import Prices, configuration_to_lead
from bellwether_kafka.coordinator.cli.groups import draw_groups, listed_groups
from bellwether_kafka.coordinator.cli.init.answers import (
    BOOTSTRAP,
    EVERY_GROUP,
    NO_GROUP,
    AnswerError,
    ChosenGroups,
    Questions,
    chosen,
    names_of,
    properties_of,
    rack_of,
)
from bellwether_kafka.coordinator.cli.init.draft import Draft, DraftedGroup, text_of
from bellwether_kafka.coordinator.cli.options import ANY_GROUP, Bootstrap, check_client, load_settings
from bellwether_kafka.coordinator.cli.output import counted, echo, fail
from bellwether_kafka.coordinator.cli.read_groups import connected, observer_for, of_a_group, run_to_end
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Group, Observation
from bellwether_kafka.coordinator.properties import environment_tables, properties_in
from bellwether_kafka.coordinator.settings import Settings, SettingsError, load

FILE = Path("bellwether.toml")
LIMIT_S = 10.0
PROTOCOL = "security.protocol"


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The answers given as options. None means that `init` asks."""

    bootstrap: str | None
    properties: Sequence[str] | None
    observe: Sequence[str] | None
    lead: Sequence[str] | None
    rack: str | None
    out: Path | None
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster's groups, each with who assigns in it, and the brokers' racks."""

    groups: tuple[Group, ...]
    racks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [row.group for row in self.groups]


def init(
    bootstrap: Bootstrap = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            help="A client property, such as security.protocol=SASL_SSL; may be repeated. A secret is read from a file:"
            " sasl.password.file=PATH.",
        ),
    ] = None,
    observe: Annotated[
        list[str] | None, typer.Option(help="A group to observe, or a pattern such as 'team-*'; may be repeated.")
    ] = None,
    lead: Annotated[list[str] | None, typer.Option(help="A group of the cluster to lead; may be repeated.")] = None,
    rack: Annotated[str | None, typer.Option(help="The brokers' rack that Bellwether runs in, '' for none.")] = None,
    out: Annotated[Path | None, typer.Option(help=f"The file to write, such as {FILE}.", show_default=False)] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help=f"Do not ask where there is a default: no login, every group observed, no rack, {FILE}.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite the file if it exists.")] = False,
) -> None:
    given = GivenOptions(bootstrap, property_, observe, lead, rack, out, overwrite)
    try:
        _init(Questions(terminal=sys.stdin.isatty(), defaults=yes), given)
    except AnswerError as error:
        fail(str(error))


def _init(questions: Questions, given: GivenOptions) -> None:
    """Asks, reads the cluster and writes the file. Raises AnswerError."""
    if given.out is not None:
        _check_target(given.out, overwrite=given.overwrite)
    properties, variables = _properties(questions, given)
    settings = load_settings(None, None, {"kafka": properties, "groups": [ANY_GROUP]})
    check_client(settings)
    cluster = run_to_end(_cluster(settings))
    groups = _groups(questions, cluster, given)
    led = run_to_end(_led(settings, groups.lead))
    where = _rack(questions, cluster.racks, given.rack)
    file = given.out or Path(questions.answer("the file to write", "a path", "--out", str(FILE)))
    _check_target(file, overwrite=given.overwrite)
    written = _write(file, text_of(Draft(properties, groups.observe, led, cluster.racks, where, variables)))
    for entry in written.groups:
        if not any(entry.selects(name) for name in cluster.names):
            echo(f"The cluster has no group yet that {entry.called} fits.", err=True)
    _print_next(file, groups)


def _properties(questions: Questions, given: GivenOptions) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the client properties for the file, and the names of those set by variables. Variables win when settings
    are loaded, and they are not written, because they may be secrets."""
    own = properties_of(given.properties or ())
    try:
        variables = properties_in(*environment_tables(os.environ))
    except ValueError as error:
        raise AnswerError(f"The BELLWETHER_KAFKA_* variables cannot be used: {error}.") from None
    servers = given.bootstrap or variables.get(BOOTSTRAP, "")
    servers = servers or questions.answer("the brokers", "host:port, with commas between", "--bootstrap")
    if not own and PROTOCOL not in variables:
        own = questions.login("--property")
    return {BOOTSTRAP: servers, **own}, tuple(sorted(variables.keys() - {BOOTSTRAP}))


async def _cluster(settings: Settings) -> Cluster:
    async with connected(settings) as sources:
        groups = await listed_groups(sources, settings.groups[0].membership(settings.instance_id))
        return Cluster(tuple(groups), await asyncio.to_thread(_racks, sources.reader.admin))


def _racks(admin: AdminClient) -> tuple[str, ...]:
    nodes = admin.describe_cluster(request_timeout=LIMIT_S).result(LIMIT_S + 1).nodes
    return tuple(sorted({node.rack for node in nodes if node.rack}))


def _groups(questions: Questions, cluster: Cluster, given: GivenOptions) -> ChosenGroups:
    if given.observe is not None or given.lead is not None:
        return chosen(given.observe or (), given.lead or (), cluster.names)
    if questions.asks:
        draw_groups(cluster.groups, wide=False)
    hint = f"names or patterns, with commas between; {NO_GROUP} for none"
    observe = questions.answer("the groups to observe", hint, "--observe or --lead", EVERY_GROUP)
    lead = questions.answer("the groups to lead", "names, with commas between", "--lead", "")
    return chosen(names_of(observe), names_of(lead), cluster.names)


async def _led(settings: Settings, names: Sequence[str]) -> tuple[DraftedGroup, ...]:
    """Reads each of these groups. Ends the process with a sentence if one cannot be led."""
    if not names:
        return ()
    async with connected(settings) as sources:
        refreshes = [of_a_group(await observer_for(settings, name, sources).observe()) for name in names]
    for seen in refreshes:
        if not seen.can_be_led:
            reason = seen.obstacle.rstrip(".") or seen.verdict
            fail(f"{seen.group_id} cannot be led: {reason}; use --observe {seen.group_id}.")
    return tuple(DraftedGroup(_headline(seen), configuration_to_lead(seen, Prices())) for seen in refreshes)


def _headline(seen: Observation) -> str:
    facts = ", ".join(part for part in (seen.kind, seen.state, seen.protocol) if part)
    return f"{seen.group_id}: {facts}, {counted(len(seen.members), 'member')}; {seen.verdict}"


def _rack(questions: Questions, racks: Sequence[str], given: str | None) -> str:
    if given is None and racks:
        given = questions.answer("the rack of this process", f"{', '.join(racks)}, empty for none", "--rack", "")
    return rack_of(given or "", racks)


def _check_target(file: Path, *, overwrite: bool) -> None:
    if not file.parent.is_dir():
        fail(f"The folder {file.parent} does not exist; make it, or change --out.")
    if file.exists() and not overwrite:
        fail(f"The file {file} exists; use --overwrite, which replaces it, or change --out.")


def _write(file: Path, text: str) -> Settings:
    """Writes the file and returns it as `run` will load it. A text that does not load does not replace the file."""
    draft = file.with_name(f".{file.name}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        loaded = load(draft, environ={})
        draft.replace(file)
    except SettingsError as error:
        fail(f"Nothing is written, because it could not be loaded: {error}")
    except OSError as error:
        fail(f"The file {file} cannot be written ({error.strerror}); change --out.")
    finally:
        draft.unlink(missing_ok=True)
    return loaded


def _print_next(file: Path, groups: ChosenGroups) -> None:
    echo(f"Wrote {file}, and loaded it again. Next:")
    for name in groups.lead:
        echo(f"  bellwether doctor {for_shell(name)} --config {for_shell(str(file))}")
    echo(f"  bellwether run --config {for_shell(str(file))}")
