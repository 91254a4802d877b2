"""The commands on recorded rebalances: `bellwether debug history` copies them into a file, from which `assess
--history` and `bellwether debug replay` plan them again. `coordinator/replay` documents what is not recorded."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import POLICIES, load_policies
from bellwether_kafka.assignors.streams.policies import STREAMS_POLICIES
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Exit, Output, counted, echo, fail, print_document, print_result
from bellwether_kafka.coordinator.control import utc_time
from bellwether_kafka.coordinator.events import RegistryError, SchemaSet, registered
from bellwether_kafka.coordinator.kafka.client import LoginError
from bellwether_kafka.coordinator.kafka.wire import librdkafka_properties
from bellwether_kafka.coordinator.replay import (
    HistoryError,
    Replayed,
    read_history,
    rebalances_of,
    replay_rebalances,
    replay_tasks,
    write_history,
    write_json_lines,
)
from bellwether_kafka.coordinator.telemetry import HistoryUnreadError, recorded

TIMEOUT_S = 10.0
DIFFERENCES_SHOWN = 5


def history(
    file: Annotated[Path, typer.Option(help="The file to write: Avro, or JSON if its name ends with .jsonl.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str, typer.Option("--events-topic", help="The events topic.")] = "bellwether.events",
    registry_url: Annotated[
        str | None, typer.Option(help="The Schema Registry, if events are framed for it; else the file's.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    try:
        settings = settings_without_group(bootstrap, config)
        registry_url = registry_url or (settings.events.registry_url if settings.events is not None else None)
        ids = registered(registry_url, topic, SchemaSet.load()) if registry_url else {}
        values = recorded(librdkafka_properties(settings.properties), topic, TIMEOUT_S, ids)
        count = (write_json_lines if file.suffix == ".jsonl" else write_history)(file, values)
    except (HistoryUnreadError, RegistryError) as error:
        fail(str(error))
    except LoginError as error:
        fail(f"The topic {topic} cannot be read: {error.clause}.")
    except KafkaException as error:
        fail(f"The topic {topic} cannot be read: {error.args[0].str()}; check bootstrap.servers and the ACL READ.")
    except OSError as error:
        fail(f"The file {file} cannot be written ({error.strerror}); check --file.")
    print_result(output, f"Wrote {count} records to {file}.", records=count, file=str(file))


def replay(
    file: Annotated[Path, typer.Argument(help="A file that `bellwether debug history` has written.")],
    policy: Annotated[list[str] | None, typer.Option(help="Decide by this policy instead; may be repeated.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be repeated.")] = None,
    output: As = Output.TABLE,
) -> None:
    try:
        of_tasks = [name for name in policy or [] if name in STREAMS_POLICIES]
        wanted = [name for name in policy or [] if name in POLICIES or name not in STREAMS_POLICIES]
        policies = load_policies(wanted)
        recorded = read_history(file)
    except shared.UnknownNameError as error:
        fail(f"The policy cannot be used: {error}.")
    except HistoryError as error:
        fail(str(error))
    groups = recorded.snapshots.keys() | recorded.rebalances.keys()
    unknown = sorted(set(group or []) - groups)
    if unknown:
        fail(f"The history has no group {unknown[0]}; it has {', '.join(sorted(groups))}.")
    for reason, count in sorted(recorded.refused.items()):
        echo(f"{count} records were left out: {reason}.", err=True)
    left_out = sorted(recorded.assignments.keys() - groups)
    if left_out:
        echo(f"Left out, as their rebalances were not recorded whole: {', '.join(left_out)}.", err=True)
    replays: list[Replayed] = []
    weights = recorded.weights()
    for name in sorted(group or groups):
        plans = recorded.assignments.get(name, [])
        if policies or not policy:
            rebalances = rebalances_of(recorded.snapshots.get(name, []), plans, recorded.sources)
            replays += replay_rebalances(rebalances, policies, weights)
        if of_tasks or not policy:
            replays += replay_tasks(recorded.rebalances.get(name, []), plans, of_tasks, weights, recorded.sources)
    if not replays:
        fail(f"The history {file} holds no plan beside its snapshots; record it again with `bellwether debug history`.")
    if output.is_document:
        print_document([{**asdict(replayed), "same": replayed.same} for replayed in replays])
    else:
        _draw_replayed(replays)
    if not all(replayed.same for replayed in replays):
        raise typer.Exit(Exit.NOT_SO)


def _draw_replayed(replays: Sequence[Replayed]) -> None:
    for replayed in replays:
        if replayed.same:
            continue
        what = replayed.failed or f"{replayed.differs} of {replayed.partitions} would be placed otherwise"
        caveat = f" ({replayed.caveat})" if replayed.caveat else ""
        policies = f"{replayed.recorded_policy} then, {replayed.policy} now"
        when = (
            f"generation {replayed.generation}"
            if replayed.generation >= 0
            else f"at {utc_time(replayed.decided_at_ms)}"
        )
        echo(f"{replayed.group}, {when}: {policies}: {what}{caveat}")
        for name in ("moved", "unowned", "cross_rack", "spread") if replayed.now and replayed.recorded else ():
            then, now = getattr(replayed.recorded, name), getattr(replayed.now, name)
            if then != now:
                echo(f"    {name.replace('_', ' ')}: {then} then, {now} now")
        for change in replayed.differences[:DIFFERENCES_SHOWN]:
            echo(f"    {change.item}: {change.recorded or 'nobody'} then, {change.now or 'nobody'} now")
    same = sum(replayed.same for replayed in replays)
    echo(f"Replayed {counted(len(replays), 'rebalance')}: {same} the same, {len(replays) - same} different.")
