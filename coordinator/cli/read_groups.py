"""How commands read groups: with a temporary connection, by the settings, without joining."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from bellwether_kafka.assignors.consumer import LOAD_AWARE
from bellwether_kafka.assignors.shared import GroupPlan, UnknownNameError
from bellwether_kafka.coordinator.cli.leader import configured, under_orders
from bellwether_kafka.coordinator.cli.options import group_settings
from bellwether_kafka.coordinator.cli.output import echo, fail
from bellwether_kafka.coordinator.cli.topic_weights import TopicWeights
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.membership import (
    ANSWERS,
    CoordinatorAnswer,
    Describe,
    DescribeAnswer,
    FindCoordinator,
    Node,
    name_of,
    usual_ms,
)
from bellwether_kafka.coordinator.names import for_sentence
from bellwether_kafka.coordinator.observation import (
    NO_BROKER,
    GroupObserver,
    LagRefreshes,
    Observation,
    OnSeen,
    Shadow,
    Sources,
    full_ids,
)
from bellwether_kafka.coordinator.planning import ApplicationError, RackFileError
from bellwether_kafka.coordinator.settings import Leader, Settings

T = TypeVar("T")
CONNECT_TIMEOUT_MS = 10_000
ANSWER_LIMIT_S = 10.0
COMMITS_S = 6.0  # consumers commit every 5 s by default
REFRESH_S = 1.0  # between refreshes of a group, each of which opens connections
UNANSWERED = (client.ClusterUnreachableError, wire.TransportError)
REFRESHES_AT_ONCE = 8
DESCRIBED_AT_ONCE = 50  # groups in a request; the answer for a large one may be a megabyte
LISTED_TYPES = ("consumer", "")
AT_MEMBER = "member:"  # prefix of a place that is a member
UNWEIGHED = (
    "This plan is by counts: without a topic under [weights] load-aware weighs by offsets, which a running Bellwether"
    " has read for a while and a command reads once. The page of that Bellwether shows its plan."
)


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Ends the process with a sentence if a setting or a broker causes an error."""
    try:
        yield
    except client.LoginError as error:
        fail(error.sentence)
    except KafkaException as error:
        fail(f"The brokers did not answer: {error.args[0].str()}; check bootstrap.servers and the ACLs.")
    except (ApplicationError, UnknownNameError, RackFileError, wire.ClientConfigError, *UNANSWERED) as error:
        fail(str(error))


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of the coroutine, or ends the process with a sentence."""
    with in_a_sentence():
        return asyncio.run(work)


def retried(
    ask: Callable[[], T],
    retry_s: float,
    *,
    unanswered: tuple[type[Exception], ...] = (),
    lacking: Callable[[T], str] = lambda _: "",
) -> T:
    """Calls `ask` until it succeeds or `retry_s` has passed, and returns its result. Retries on errors of the kinds
    `unanswered`, which are raised in the end, and on results for which `lacking` returns a reason. Prints one notice
    before the first retry."""
    limit, announced = time.monotonic() + retry_s, False
    while True:
        over = time.monotonic() >= limit
        try:
            result = ask()
            why = lacking(result)
            if over or not why:
                return result
        except unanswered as error:
            if over:
                raise
            why = str(error)
        if not announced:
            echo(f"{why[:1].upper()}{why[1:].rstrip('.')}. Trying again for {retry_s:g} s.", err=True)
            announced = True
        time.sleep(REFRESH_S)


@asynccontextmanager
async def connected(settings: Settings, *, many: bool = False) -> AsyncIterator[Sources]:
    """Opens the sources that a refresh reads from. Plans by load use the topic of weights, if one is configured.
    `many`: for repeated refreshes of many groups, which share requests, and plans as long as nothing changes. Raises
    TransportError and ClientConfigError.

    The transport is opened first, because its error explains why a login gets no token; librdkafka's does not.
    """
    for_librdkafka = wire.librdkafka_properties(settings.properties)
    transport = wire.Transport(settings.properties)
    with ExitStack() as opened:
        try:
            await transport.start(CONNECT_TIMEOUT_MS)
            reader, offsets, shared = _shared(transport, for_librdkafka) if many else _own(transport, for_librdkafka)
            opened.callback(reader.close)
            opened.callback(offsets.close)
            read_weights = None
            if settings.weights is not None:
                topic = TopicWeights(settings.properties, settings.weights)
                opened.callback(topic.close)
                read_weights = topic.read
            yield Sources(transport, reader, offsets, shared, read_weights)
        finally:
            opened.close()
            await transport.close()


Readers = tuple[client.ClusterReader, client.OffsetReader, Describer | None]


def _own(transport: wire.Transport, properties: Mapping[str, Any]) -> Readers:
    reader = client.ClusterReader(properties)
    return reader, client.OffsetReader(reader, transport, Describer(transport)), None


def _shared(transport: wire.Transport, properties: Mapping[str, Any]) -> Readers:
    reader, groups = client.SharedReader(properties), Describer(transport)
    return reader, client.OffsetReader(reader, transport, groups), groups


async def answer_time_ms(
    transport: wire.Transport, group: str, monotonic: Callable[[], float] = time.monotonic
) -> float | None:
    """Returns how long the coordinator node takes to describe the group, by the same rule as `bellwether run`; None if
    it does not answer."""
    limit_ms = int(ANSWER_LIMIT_S * 1000)
    coordinator = await transport.request(FindCoordinator(0, group, limit_ms))
    if not isinstance(coordinator, CoordinatorAnswer) or coordinator.node is None:
        return None
    took_ms = []
    for _ in range(1 + ANSWERS):  # the first may have to connect
        begun_s = monotonic()
        answer = await transport.request(Describe(0, coordinator.node, group, limit_ms))
        if not isinstance(answer, DescribeAnswer):
            return None
        took_ms.append((monotonic() - begun_s) * 1000)
    return usual_ms(took_ms)


def answer_time_of(settings: Settings, group: str) -> float | None:
    """Returns the same as `answer_time_ms` over a temporary connection, or ends the process with a sentence."""

    async def measured() -> float | None:
        async with connected(settings) as sources:
            return await answer_time_ms(sources.transport, group)

    return run_to_end(measured())


@asynccontextmanager
async def observer_of(settings: Settings, group: str, *, unsubscribed: bool = False) -> AsyncIterator[GroupObserver]:
    """Opens an observer whose shadow plan is what the configured leader would decide. `unsubscribed`: it also reads the
    lags of topics with committed offsets that no member subscribes to."""
    async with connected(settings) as sources:
        leader = await asyncio.to_thread(under_orders, settings, group)
        yield observer_for(settings, group, sources, leader, unsubscribed=unsubscribed)


async def refreshes(
    settings: Settings, group: str, interval_s: float, *, unsubscribed: bool = False
) -> AsyncIterator[Observation]:
    """Yields a refresh of the group every `interval_s` seconds, without end. All use one history of offsets, from which
    rates, times and verdicts come; each plans under the orders that are then in force. If brokers do not answer, the
    last refresh is yielded again, with the reason in `unknown`. Ends the process if the group is missing or not visible
    at first."""
    lags, by, observer, last = LagRefreshes(group), None, None, None
    async with connected(settings) as sources:
        while True:
            leader = await asyncio.to_thread(under_orders, settings, group)
            if observer is None or leader.rules != by:
                by = leader.rules
                observer = observer_for(settings, group, sources, leader, unsubscribed=unsubscribed, lags=lags)
            seen = await (observer.observe() if last is not None else observe_twice(observer))
            if last is None and (seen.unknown is None or seen.unknown.right):
                of_a_group(seen)
            if seen.unknown is None:
                last = seen
            yield seen if seen.unknown is None or last is None else replace(last, unknown=seen.unknown)
            await asyncio.sleep(interval_s)


def observer_for(
    settings: Settings,
    group: str,
    sources: Sources,
    leader: Leader | None = None,
    *,
    on_seen: Sequence[OnSeen] = (),
    unsubscribed: bool = False,
    lags: LagRefreshes | None = None,
) -> GroupObserver:
    """Returns an observer with the group's settings or the defaults. `leader`, if given, makes the plans."""
    by = leader or configured(settings, group)
    membership = group_settings(settings, group).membership(settings.instance_id)
    return GroupObserver(
        membership,
        sources,
        by.policy,
        by.application,
        on_seen=on_seen,
        read_weights=sources.weights,
        lags=lags,
        unsubscribed=unsubscribed,
        racks=settings.racks.rules(),
    )


async def observe_twice(observer: GroupObserver, *, caught_up: bool = False) -> Observation:
    """Observes a group, and again after a while if it has no members but unread records, or with `caught_up` any
    committed offsets. Offsets that have moved in between show that its consumers assign partitions themselves."""
    seen = await observer.observe()
    worth = seen.lag is not None if caught_up else bool(seen.lag)
    if not worth or seen.members or seen.bellwether_members:
        return seen
    await asyncio.sleep(COMMITS_S)
    again = await observer.observe()
    return seen if again.kind == "unknown" else again


def observe_group(
    settings: Settings, group: str, *, unknown: bool = False, commits: bool = False, unsubscribed: bool = False
) -> Observation:
    """Observes a group, or ends the process with a sentence. `unknown`: a group that brokers do not describe is
    returned too. `commits`: observe as `observe_twice` does. `unsubscribed`: as in `observer_of`."""

    async def once() -> Observation:
        async with observer_of(settings, group, unsubscribed=unsubscribed) as observer:
            seen = await (observe_twice(observer) if commits else observer.observe())
            return seen if unknown and seen.kind == "unknown" else of_a_group(seen)

    return run_to_end(once())


def of_a_group(seen: Observation) -> Observation:
    """Returns the observation. Ends the process with a sentence if the group is missing or not visible."""
    if seen.kind in ("missing", "unknown"):
        fail(f"The group {for_sentence(seen.group_id)} cannot be described: {seen.trouble}. {_remedy(seen)}.")
    return seen


def _remedy(seen: Observation) -> str:
    if seen.unknown is None:
        return "See 'bellwether groups'"
    if seen.unknown.right:
        return "See docs/reference/acls.md"
    if seen.unknown.reason.startswith(NO_BROKER):
        return "Name brokers in bootstrap.servers, by a listener that takes this request"
    return "It may be moving to another broker: try again in some seconds, or see 'bellwether groups'"


def observe_with_plan(settings: Settings, group: str) -> tuple[Observation, Shadow]:
    """Returns one observation of a group and its shadow plan, or ends the process with a sentence."""
    seen = observe_group(settings, group)
    if seen.kind in ("missing", "unknown"):
        fail(f"The group {for_sentence(group)} cannot be shown: {seen.trouble}.")
    if seen.shadow is None:
        fail(f"There is nothing to plan in {for_sentence(group)}: {seen.no_plan}.")
    if settings.weights is None and seen.shadow.decision.policy == LOAD_AWARE:
        echo(UNWEIGHED, err=True)
    return seen, seen.shadow


def warn_hypothetical(seen: Observation, *, err: bool = False) -> None:
    """Prints who carries out the plan for a group if Bellwether does not lead it. `err`: on standard error."""
    if seen.asks_bellwether:
        echo("Its broker assigns, and asks Bellwether for plans.", err=err)
    elif seen.hypothetical:
        echo(f"Hypothetical: {seen.obstacle.rstrip('.')}. This is what Bellwether would do if it could.", err=err)


async def all_groups(transport: wire.Transport, reader: client.ClusterReader) -> list[wire.ListedGroup]:
    """Returns the groups of all brokers that list theirs."""
    return [group for groups in (await groups_by_node(transport, reader)).values() for group in groups]


async def groups_by_node(
    transport: wire.Transport, reader: client.ClusterReader
) -> dict[Node, tuple[wire.ListedGroup, ...]]:
    """Returns the groups of all brokers by their coordinator node. A broker that does not list all its groups is
    reported on standard error, and the groups of the others are returned."""
    nodes = await reader.nodes()
    answers = await asyncio.gather(*map(transport.list_groups, nodes), return_exceptions=True)
    groups: dict[Node, tuple[wire.ListedGroup, ...]] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, wire.TransportError):
            echo(f"Broker {node.node_id} does not list its groups ({answer}); they are left out.", err=True)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            groups[node] = answer.groups
            if answer.error:
                why = name_of(answer.error)
                echo(f"Broker {node.node_id} does not list all of its groups ({why}); some may be left out.", err=True)
    if nodes and not groups:
        raise next(answer for answer in answers if isinstance(answer, wire.TransportError))
    return groups


async def described_at(transport: wire.Transport, groups: Mapping[Node, Sequence[str]]) -> dict[str, DescribeAnswer]:
    """Describes these classic groups at their coordinator nodes, many in one request. Groups of a broker that does not
    answer are left out."""
    turns = asyncio.Semaphore(REFRESHES_AT_ONCE)

    async def some(node: Node, ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        async with turns:
            try:
                return await transport.describe_groups(node, ids)
            except wire.TransportError:
                return {}

    parts = [
        (node, ids[i : i + DESCRIBED_AT_ONCE])
        for node, ids in groups.items()
        for i in range(0, len(ids), DESCRIBED_AT_ONCE)
    ]
    answers = await asyncio.gather(*(some(node, ids) for node, ids in parts))
    return {group: answer for part in answers for group, answer in part.items()}


def owners_called(seen: Observation, plan: GroupPlan, text: str) -> list[str]:
    """Returns the members, or processes of an application, with this id, short id or client id."""
    ids = set(full_ids(seen, text))
    return [owner.name for owner in plan.owners if ids & {owner.name, *owner.members}]
