"""The commands `bellwether topology learn|parse|show|diff`: create topology files, show and compare them."""

import asyncio
import codecs
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import (
    Topology,
    TopologyError,
    parse_description,
)
from bellwether_kafka.bounded import read_file, read_stream, yaml_of
from bellwether_kafka.coordinator.cli.admin import admin_of
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, check_client, load_settings
from bellwether_kafka.coordinator.cli.output import As, Output, echo, echo_lines, fail, print_document
from bellwether_kafka.coordinator.cli.read_groups import connected
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import GroupState
from bellwether_kafka.coordinator.settings import Settings
from bellwether_kafka.coordinator.topology import (
    Learned,
    combined,
    learn_live,
    load_topology,
    sentences,
    serving,
    serving_candidates,
    topic_configs,
    topic_counts,
    upgrade,
    with_existing,
    write_topology,
)

LIMIT_S = 10.0
TEXT_BYTES_MAX = 50_000_000  # in UTF-16, too
PIPE_S = 600.0  # an application may have to start before it prints its description
WATCH_S = 5.0


def learn(
    group: Annotated[str, typer.Argument(help="The application id of a running, stable application.")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    describe: Annotated[
        Path | None, typer.Option(help='The text of its Topology.describe(), "-" for standard input: names its stores.')
    ] = None,
    output: As = Output.TABLE,
) -> None:
    text = _text(describe) if describe is not None else None
    try:
        learned = asyncio.run(_learn(group, _settings(bootstrap, config, group), text))
    except TopologyError as error:
        fail(f"The topology of {group} cannot be learned: {error}.")
    _print(learned.topology, learned.notes, output)


def parse(
    file: Annotated[Path, typer.Argument(help='The text of Topology.describe(), "-" for standard input.')],
    application_id: Annotated[str, typer.Option(help="application.id of the application.")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
) -> None:
    text = _text(file)
    try:
        if bootstrap or config:
            admin = admin_of(_settings(bootstrap, config, application_id).properties)
            counts = topic_counts(admin, LIMIT_S)
            described = parse_description(text, application_id, counts)
            topology, notes = _with_existing(described.topology, described.notes, admin, counts)
        else:
            described = parse_description(text, application_id)
            topology, notes = described.topology, described.notes
    except TopologyError as error:
        fail(f"{file} cannot be used: {error}.")
    _print(topology, notes, output)


def _text(file: Path) -> str:
    try:
        is_input = str(file) == "-"
        return _decoded(
            read_stream(sys.stdin.buffer, TEXT_BYTES_MAX) if is_input else read_file(file, TEXT_BYTES_MAX, PIPE_S)
        )
    except OSError as error:
        fail(f"{file} cannot be read ({error.strerror}); check the path.")
    except UnicodeDecodeError:
        fail(f"{file} is no text in UTF-8 or UTF-16; save it as one.")


def _decoded(data: bytes) -> str:
    """Decodes a text with or without a byte order mark; PowerShell writes UTF-16. Raises UnicodeDecodeError."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig")


def show(file: Annotated[Path, typer.Argument(help="A topology file.")], output: As = Output.TABLE) -> None:
    try:
        topology = load_topology(file)
    except TopologyError as error:
        fail(str(error))
    if output.is_document:
        print_document(_document(topology))
        return
    for line in _lines(topology):
        echo(line)


def _document(topology: Topology) -> dict[str, Any]:
    return {
        "application": topology.application_id,
        "digest": topology.digest,
        "subtopologies": [asdict(s) | {"stateful": s.stateful} for s in topology.subtopologies],
        "patterns": [{"subtopology": number, "pattern": pattern} for number, pattern in topology.patterns],
        "undecided": list(topology.undecided),
        "obstacle": topology.obstacle,
        "exported": asdict(topology.exported) if topology.exported is not None else None,
    }


def _lines(topology: Topology) -> list[str]:
    lines = [f"application {topology.application_id}", f"digest      {topology.digest}"]
    if topology.exported is not None:
        lines.append(f"exported by Kafka Streams {topology.exported.streams_version}")
        lines += [f"in memory   {store}" for store in topology.exported.in_memory_stores]
    for s in topology.subtopologies:
        patterns = [f"/{pattern}/" for number, pattern in topology.patterns if number == s.id]
        lines.append(f"subtopology {s.id}, {'stateful' if s.stateful else 'stateless'}")
        lines.append(f"  reads     {', '.join([*s.sources, *patterns])}")
        lines += [f"  writes    {', '.join(s.repartition_sinks)}"] if s.repartition_sinks else []
        lines += [f"  keeps     {', '.join(s.changelogs)}"] if s.changelogs else []
        lines += [f"  joins     {', '.join(g)}" for g in s.copartition_groups]
    if topology.obstacle:
        lines.append(f"undecided   {', '.join(topology.undecided)}")
        lines.append(f"It cannot be led with: {topology.obstacle}.")
    return lines


def diff(
    old: Annotated[Path, typer.Argument(help="The topology file of the version that runs.")],
    new: Annotated[Path, typer.Argument(help="The topology file of the version that is to run.")],
    output: As = Output.TABLE,
) -> None:
    try:
        before, after = load_topology(old), load_topology(new)
    except TopologyError as error:
        fail(str(error))
    if before.application_id != after.application_id:
        named = f"{before.application_id} and {after.application_id}"
        fail(f"The files are of two applications, {named}: compare files of one.")
    difference = upgrade(before, after)
    if output.is_document:
        print_document(asdict(difference) | {"rolling": difference.rolling})
        return
    for line in sentences(difference):
        echo(line)
    echo("")
    echo(f"A rolling upgrade: {difference.rolling}")


async def _learn(group: str, settings: Settings, text: str | None) -> Learned:
    """Learns the topology, with the text of its description if there is one. Raises TopologyError. Ends the command if
    brokers do not answer."""
    try:
        async with connected(settings) as sources:
            answer = await sources.transport.describe_group(group)
            if answer.error:
                raise TopologyError(f"the group cannot be described (error {answer.error}) {answer.message}".rstrip())
            if answer.state != GroupState.STABLE or answer.protocol != "stream":
                raise TopologyError(f"it must be Stable under protocol 'stream', and it is {answer.state or 'unknown'}")
            described = [AssignedMember(m.member_id, m.instance_id, m.metadata, m.assignment) for m in answer.members]
            admin, learned = (
                sources.reader.admin,
                partial(learn_live, group, described, sources.reader.admin, sources.offsets),
            )
            from_text = None
            if text is not None:
                from_text = parse_description(text, group, await asyncio.to_thread(topic_counts, admin, LIMIT_S))
                learned = partial(learned, serving=serving(from_text.topology))
            result = await learned(LIMIT_S)
            if result.topology.undecided:  # changelogs that grow in between are in use
                await asyncio.sleep(WATCH_S)
                result = await learned(LIMIT_S, result.ends)
            result = combined(from_text, result) if from_text is not None else result
            return await asyncio.to_thread(_completed, result, admin)
    except TransportError as error:
        fail(str(error))


def _completed(learned: Learned, admin: AdminClient) -> Learned:
    """Adds what the application's topics show, source topics included. Raises TopologyError."""
    counts = topic_counts(admin, LIMIT_S)
    topology, notes = _with_existing(learned.topology, learned.notes, admin, counts)
    external = sorted({*topology.source_topics} - {*topology.repartition_topics})
    candidates = serving_candidates(topology, topic_configs(admin, external, LIMIT_S))
    return Learned(topology, (*notes, *candidates))


def _with_existing(
    topology: Topology, notes: Sequence[str], admin: AdminClient, counts: Mapping[str, int]
) -> tuple[Topology, tuple[str, ...]]:
    topics = [t for t in (*topology.repartition_topics, *topology.changelogs, *topology.undecided) if t in counts]
    completed = with_existing(topology, counts, topic_configs(admin, topics, LIMIT_S))
    return completed.topology, (*notes, *completed.notes)


def _settings(bootstrap: str | None, config: Path | None, group: str) -> Settings:
    settings = load_settings(bootstrap, config, {"groups": [group]})
    check_client(settings)
    return settings


def _print(topology: Topology, notes: Sequence[str], output: Output) -> None:
    """Prints the file, or as JSON the same document, which is also a topology file (YAML includes JSON)."""
    text = write_topology(topology, notes)
    if output.is_document:
        print_document(yaml_of(text))
    else:
        echo_lines(text, nl=False)
