"""The clients of a process over the brokers of the simulation: the product's own, but for the network under them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError, Ends, MetadataRead
from bellwether_kafka.coordinator.kafka.client.metadata import ABSENT, MetadataCache
from bellwether_kafka.coordinator.kafka.wire import (
    AnyCommitted,
    FetchedOffsets,
    GroupList,
    ListedGroup,
    RemovedMembers,
    Together,
    TransportError,
    node_requests,
)
from bellwether_kafka.coordinator.membership import Failure, Node, RequestFailed
from tests.simulation.brokers.broker import NODES, addressed, node, refusal

if TYPE_CHECKING:
    from tests.simulation.instance import Server
    from tests.simulation.world import World

CONTROL_LANE = -1  # of short requests; JoinGroups have lanes from 0 on
LANES = 20  # of the join connections of a group
APART = 100_000  # lanes of one transport from those of the next
RELEASE = (4, 3)
UNKNOWN_GROUP, NOT_COORDINATOR = 69, 16
GROUP_SIZE_MAX = "group.max.size"
SILENT = KafkaException(KafkaError(KafkaError._TRANSPORT))


class Admin:
    """An admin client, to which brokers tell their group.max.size where the world lets them, and nothing else."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def describe_cluster(self, **_: Any) -> Any:
        if self._world.size_max is None:
            raise SILENT
        return _done(SimpleNamespace(nodes=[SimpleNamespace(id=number) for number in NODES]))

    def describe_configs(self, resources: Sequence[Any], **_: Any) -> dict[Any, Any]:
        setting = SimpleNamespace(value=str(self._world.size_max))
        return {resource: _done({GROUP_SIZE_MAX: setting}) for resource in resources}

    def __getattr__(self, name: str) -> Any:
        raise SILENT


def _done(result: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class Transport(wire.Transport):
    """Of one process, whose connections have its name. Methods above single requests are the product's."""

    def __init__(self, server: "Server", ordinal: int) -> None:
        self._server, self._world = server, server.world
        self._client, self._ordinal = server.client, ordinal
        self._worlds = {group: instance.world for group, instance in server.of.items()}
        self._joins: dict[str, list[Any]] = {}  # requests on the join connections of a group
        self.pins_version = True
        self.broker_version = RELEASE

    async def start(self, timeout_ms: int = 10_000) -> None:
        """Finds brokers at once."""

    async def close(self) -> None:
        """Closes nothing: the connections end with the process."""

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed:
        world = self._worlds[command.group_id]
        world.checks.worked(type(command).__name__)
        if isinstance(command, membership.Sync) and command.assignments:
            world.sent(command.assignments)
        at = self._anywhere() if isinstance(command, membership.FindCoordinator) else command.node.node_id
        lane = 0 if isinstance(command, membership.Sync) else CONTROL_LANE
        if isinstance(command, (membership.Join, membership.Evict)) and command.lane is not None:
            lane = command.lane
        name = self._client.rsplit(".", 1)[0]

        def serve(reply: Callable[[Any], None]) -> None:
            if world.refuses_with and not isinstance(command, membership.FindCoordinator):
                reply(refusal(command, world.refuses_with))
            else:
                world.broker.serve(at, name, command, reply)

        joins = self._joins.setdefault(command.group_id, []) if lane != CONTROL_LANE else None
        if lane != CONTROL_LANE:
            lane += LANES * list(self._worlds).index(command.group_id)  # join connections are of one group
        answer = await self._call(lane, at, serve, command.timeout_ms, joins, world.answered)
        if isinstance(answer, Failure):
            return RequestFailed(command.request_id, answer, answer.name)
        if self._server.client == self._client:
            world.checks.roles.received(self._server.of[command.group_id], answer)
        return addressed(answer, command.request_id)  # type: ignore[no-any-return]  # one of the answers

    def abandon(self, group_id: str) -> None:
        for call in self._joins.pop(group_id, ()):
            call.drop()

    async def _ask(self, request: Any, kind: str = "") -> Any:
        del kind
        at = request.node.node_id if request.node is not None else self._anywhere()

        def serve(reply: Callable[[Any], None]) -> None:
            if self._world.offsets_are_told or not isinstance(request, wire.FetchOffsetsOfMany):
                reply(self._answer(at, request))

        answer = await self._call(CONTROL_LANE - 1, at, serve, request.timeout_ms)
        if isinstance(answer, Failure):
            raise TransportError(answer, answer.name)
        return answer

    def _anywhere(self) -> int:
        return self._world.rng.choice((1, 2, 3))

    def _removed(self, request: wire.RemoveMembers) -> dict[str, int]:
        """The error of each member, by its id. Raises ViolationError for one that lives."""
        world = self._worlds[request.group_id]
        for member in world.members:
            if member.running and member.member_id in dict(request.members):
                world.violate(f"{self._client} removes {member.member_id}, and {member.name} lives: {request.members}")
        world.removed += len(request.members)
        return {member: world.broker.group.remove(member, None) for member, _ in request.members}

    async def _call(
        self,
        lane: int,
        at: int,
        serve: Any,
        timeout_ms: int,
        calls: list[Any] | None = None,
        arrived: Callable[[Any], None] = lambda _: None,
    ) -> Any:
        """Returns the answer, or the failure."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(value: Any) -> None:
            arrived(value)
            if not outcome.done():
                outcome.set_result(value)

        lane -= APART * self._ordinal
        call = self._world.network.call(self._client, lane, at, serve, timeout_ms / 1000, settle, settle)
        if calls is not None:
            calls[:] = [*(other for other in calls if not other.over), call]
        return await outcome

    def _coordinates(self, at: int, group: str) -> bool:
        broker = self._worlds[group].broker
        return at == broker.coordinator and not broker.loading

    def _committed(self, at: int, group: str, topics: Mapping[str, int]) -> FetchedOffsets:
        error = 0 if self._coordinates(at, group) else NOT_COORDINATOR
        return FetchedOffsets(self._worlds[group].committed_of(topics), error)

    def _answer(self, at: int, request: Any) -> Any:
        """What the node answers to a request that is not of a membership."""
        match request:
            case wire.DescribeMany():
                answers: dict[str, Any] = {}
                for group in request.group_ids:
                    asked = membership.Describe(0, request.node, group, 0)
                    self._worlds[group].broker.serve(at, "", asked, partial(answers.setdefault, group))
                return answers
            case wire.ListAllGroups():
                mine = [group for group in self._worlds if self._coordinates(at, group)]
                listed = [(group, self._worlds[group].broker.group.state) for group in mine]
                return GroupList(0, tuple(ListedGroup(group, "consumer", state, "classic") for group, state in listed))
            case wire.RemoveMembers():
                if not self._coordinates(at, request.group_id):
                    return RemovedMembers(NOT_COORDINATOR, {})
                return RemovedMembers(0, self._removed(request))
            case wire.FetchOffsetsOfMany():
                return {group: self._committed(at, group, topics) for group, topics in request.groups.items()}
            case node_requests.FindAnyOffset():
                coordinates = self._coordinates(at, request.group_id)
                commits = self._worlds[request.group_id].commits if coordinates else 0
                offsets = {"t": [commits - 1]} if commits else {}
                return AnyCommitted(bool(commits), 0 if coordinates else NOT_COORDINATOR, tuple(offsets), offsets)
            case wire.LatestOffsets():
                end_of = self._world.end_of
                return {t: {p: (0, end_of(t, p)) for p in partitions} for t, partitions in request.partitions.items()}
            case wire.DescribeManyByBroker():
                raise AssertionError(request)
            case node_requests.LogSizes() | wire.TopicIds():
                return {}
        raise AssertionError(f"no broker of the simulation answers {request}")


def read(cache: MetadataCache, world: "World", topics: Sequence[str]) -> str:
    """Reads topics into a cache. Returns why no broker answered, "" if one did."""
    if not world.metadata:
        return "No broker answered."
    reported, now = world.topics.reported(), world.clock.now
    seen = world.topics.read(tuple(topics), reported)
    cache.see_brokers({number: world.topics.racks.get(number) for number in NODES})
    for topic in topics:
        codes = seen.codes_of.get(topic)
        if codes is None:
            cache.see_trouble(topic, now, ABSENT)
        else:
            cache.see_topic(topic, now, seen.placements, codes)
    world.has_read(reported)
    return ""


class _OfWorld:
    """What both readers of metadata have in common."""

    _world: "World"
    _read_together: Any

    def _open(self, world: "World") -> None:
        self._world = world
        self._clock = clocks.monotonic
        self._cache = MetadataCache()
        self._together = Together(self._read_together)
        self.last_read: MetadataRead | None = None
        self.admin = Admin(world)

    async def nodes(self) -> tuple[Node, ...]:
        if not self._world.metadata:
            raise ClusterUnreachableError("No broker answered.")
        return tuple(node(number) for number in NODES)

    async def _request(self, topics: list[str]) -> str:
        await asyncio.sleep(self._world.rng.uniform(0.001, 0.01))
        return read(self._cache, self._world, topics)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def close(self) -> None:
        """Owns no threads."""


class Reader(_OfWorld, client.ClusterReader):
    """Reads the topics of the world, with the product's cache."""

    def __init__(self, world: "World") -> None:
        self._open(world)


class SharedReader(_OfWorld, client.SharedReader):
    def __init__(self, world: "World") -> None:
        self._open(world)
        self._turn = asyncio.Lock()
        self._wanted: dict[str, float] = {}
        self._failed = None


class Offsets(client.OffsetReader):
    """Reads log ends of the world."""

    def __init__(self, world: "World", groups: Any) -> None:
        self._groups, self._world = groups, world
        self._clock, self._wall_clock = clocks.monotonic, clocks.wall

    async def listed(self, topics: Mapping[str, int], place: Any, limit_s: float) -> Ends:
        del place, limit_s
        if not self._world.metadata:
            raise client.OffsetsError("offsets: no answer in time")
        await asyncio.sleep(self._world.rng.uniform(0.001, 0.01))
        end_of = self._world.end_of
        return Ends({t: np.array([end_of(t, p) for p in range(n)], dtype=np.int64) for t, n in topics.items()})

    def close(self) -> None:
        """Owns no threads."""
