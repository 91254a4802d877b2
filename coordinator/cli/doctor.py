"""The command `bellwether doctor GROUP`: checks a group from outside, without joining it."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from rich.text import Text

from bellwether_kafka.assignors.streams.application import Topology, TopologyError
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.cli import leader
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, group_settings, settings_for
from bellwether_kafka.coordinator.cli.output import As, Console, Exit, Output, fail, print_document
from bellwether_kafka.coordinator.cli.read_groups import (
    answer_time_ms,
    connected,
    observe_twice,
    observer_for,
    run_to_end,
)
from bellwether_kafka.coordinator.kafka.client import (
    ClusterUnreachableError,
    SettingOfBroker,
    oldest_release,
    read_broker_config,
    read_size_limit,
)
from bellwether_kafka.coordinator.kafka.wire import TransactionalIds, Transport, TransportError
from bellwether_kafka.coordinator.observation import (
    BROKER_CONFIGS,
    UNREAD,
    DoctorFacts,
    Finding,
    Level,
    Observation,
    Sources,
    examine,
    next_steps,
    read_logs,
    why_unread,
    worst,
)
from bellwether_kafka.coordinator.settings import Settings
from bellwether_kafka.coordinator.topology import topic_counts, topology_of_application

LIMIT_S = 10.0
DETAILS_MAX = 20
ASSIGNORS = {"consumer": "group.consumer.assignors", "streams": "group.streams.assignors"}
NONE: frozenset[str] = frozenset()
NOBODY = "bellwether-doctor"  # a member id that no broker assigns
COLOURS = {"n/a": "dim", "pass": "green", "warn": "yellow", "fail": "red"}


def doctor(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topology: Annotated[
        Path | None,
        typer.Option(help="The topology file of another version of the application: checks an upgrade to it."),
    ] = None,
    output: As = Output.TABLE,
) -> None:
    settings, configured = settings_for(bootstrap, config, group)
    new = _new_topology(topology, settings, group) if topology is not None else None
    facts = replace(run_to_end(_facts(settings, configured, group)), new_topology=new)
    checks = examine(facts)
    if output.is_document:
        print_document([asdict(check) for check in checks])
    else:
        _draw(checks, next_steps(facts, checks))
    if worst(checks) is Level.FAIL:
        raise typer.Exit(Exit.NOT_SO)


def _new_topology(path: Path, settings: Settings, group: str) -> Topology:
    streams = group_settings(settings, group).streams
    try:
        return topology_of_application(path, streams.application_id if streams is not None else group)
    except TopologyError as error:
        fail(str(error))


async def _facts(settings: Settings, configured: bool, group: str) -> DoctorFacts:
    async with connected(settings) as sources:
        given = await asyncio.to_thread(leader.given_orders, settings)
        rules = leader.rules_of(given.records, group, given.now_ms) if given is not None else ()
        leading = leader.configured(settings, group, rules=rules)
        seen = await observe_twice(observer_for(settings, group, sources, leading), caught_up=True)
        group_config = group_settings(settings, group)
        application = leading.application
        config = group_config.membership(settings.instance_id)
        config = application.membership(config) if application is not None else config
        if not configured and seen.protocol == membership.STREAMS_PROTOCOL:
            config = replace(config, protocols=(membership.STREAMS_PROTOCOL,))  # it is not configured as anything else
        error = await _heartbeat(sources.transport, group)
        admin = sources.reader.admin
        (racks, limits), size_limit = await asyncio.gather(
            asyncio.to_thread(_brokers, admin), asyncio.to_thread(read_size_limit, admin, LIMIT_S)
        )
        version = await oldest_release(sources.transport, sources.reader)
        topology = application.topology if application is not None else None
        facts = DoctorFacts(
            seen=seen,
            config=config,
            mode=group_config.mode,
            heartbeat_error=error,
            broker_racks=racks,
            limits=limits,
            broker_version=version,
            streams=group_config.streams,
            ghosts=group_config.ghost_options,
            size_limit=size_limit,
            topology=topology,
            topic_counts=await asyncio.to_thread(_counts, admin) if topology is not None and not seen.members else None,
            policy=leading.policy,
            assignors=await asyncio.to_thread(settings_of_brokers, admin, ASSIGNORS[seen.kind])
            if seen.kind in ASSIGNORS
            else {},
            answer_time_ms=await answer_time_ms(sources.transport, group) if seen.members else None,
            weights_topic=settings.weights.topic if settings.weights is not None else "",
            given=given,
            transactional_ids=await _transactional_ids(sources, seen),
        )
        if not facts.by_load or facts.weights_topic:
            return facts
        counts = {topic: len(lags) for topic, lags in seen.lags.items()}
        return await _with_log_sizes(facts, sources, counts) if counts else facts


async def _with_log_sizes(facts: DoctorFacts, sources: Sources, counts: Mapping[str, int]) -> DoctorFacts:
    """Adds whether brokers report the sizes of these topics' logs, or why that is not known."""
    try:
        return replace(facts, log_sizes=bool(await read_logs(sources.transport, sources.reader.admin, counts)))
    except UNREAD as error:
        return replace(facts, log_sizes_unread=why_unread(error))


async def _transactional_ids(sources: Sources, seen: Observation) -> frozenset[str]:
    """Returns, if the group is an application, the transactional ids of all brokers that answer, as far as Bellwether
    may describe them."""
    if seen.protocol != membership.STREAMS_PROTOCOL:
        return NONE
    try:
        nodes = await sources.reader.nodes()
    except ClusterUnreachableError:
        return NONE
    asked = (sources.transport.ask(TransactionalIds(node, int(LIMIT_S * 1000))) for node in nodes)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    if unexpected := [a for a in answers if isinstance(a, BaseException) and not isinstance(a, TransportError)]:
        raise unexpected[0]
    return NONE.union(*(ids for ids in answers if isinstance(ids, frozenset)))


def _counts(admin: AdminClient) -> dict[str, int] | None:
    """Returns the partitions of all topics, None if no broker answers."""
    try:
        return topic_counts(admin, LIMIT_S)
    except TopologyError:
        return None


def settings_of_brokers(admin: AdminClient, name: str) -> dict[int, SettingOfBroker]:
    """Returns this setting of each broker, none if the brokers cannot be listed."""
    try:
        return read_broker_config(admin, name, LIMIT_S)
    except (KafkaException, TimeoutError):
        return {}


async def _heartbeat(transport: Transport, group: str) -> int | None:
    """Sends a heartbeat of an unknown member, and returns the code of the answer, None if there is none. The code
    UNKNOWN_MEMBER_ID shows that Bellwether may use the group."""
    coordinator = await transport.request(membership.FindCoordinator(0, group, int(LIMIT_S * 1000)))
    if not isinstance(coordinator, membership.CoordinatorAnswer):
        return None
    if coordinator.node is None:
        return coordinator.error
    heartbeat = membership.Heartbeat(0, coordinator.node, group, int(LIMIT_S * 1000), NOBODY, None, -1)
    answer = await transport.request(heartbeat)
    return answer.error if isinstance(answer, membership.HeartbeatAnswer) else None


def _brokers(admin: AdminClient) -> tuple[list[str | None], dict[str, int]]:
    """Returns the rack of every broker, and the brokers' limits on groups as far as Bellwether may read them."""
    nodes = admin.describe_cluster(request_timeout=LIMIT_S).result(LIMIT_S + 1).nodes
    resource = ConfigResource(ConfigResource.Type.BROKER, str(nodes[0].id))
    try:
        configs = admin.describe_configs([resource], request_timeout=LIMIT_S)[resource].result(LIMIT_S + 1)
    except KafkaException:
        configs = {}  # no DESCRIBE_CONFIGS, of which `doctor` warns
    limits = {name: int(configs[name].value) for name in BROKER_CONFIGS if name in configs}
    return [node.rack for node in nodes], limits


def _draw(checks: tuple[Finding, ...], steps: tuple[str, ...]) -> None:
    console = Console(soft_wrap=True)
    draw_checks(console, checks)
    draw_steps(console, "Next:", steps)


def draw_steps(console: Console, title: str, steps: Iterable[str]) -> None:
    console.print(Text(title, "bold"))
    for number, step in enumerate(steps, 1):
        console.print(Text(f"  {number}. {step}"))


def draw_checks(console: Console, checks: Iterable[Finding]) -> None:
    for check in checks:
        verdict = check.level.value
        console.print(Text.assemble((f"{verdict:5}", COLOURS[verdict]), f"{check.kind}: {check.message}"))
        if check.remedy:
            console.print(Text(f"     {check.remedy}", "dim"))
        for line in check.details[:DETAILS_MAX]:
            console.print(Text(f"     {line}"))
        if len(check.details) > DETAILS_MAX:
            console.print(Text(f"     and {len(check.details) - DETAILS_MAX} more: -o json shows all"))
