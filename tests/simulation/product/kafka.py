"""The clients of a process over the brokers of the simulation: the product's own, but for the network under them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.coordinator import clocks, kafka, membership
from bellwether_kafka.coordinator.kafka import (
    AnyCommitted,
    Batches,
    ClusterUnreachableError,
    Ends,
    FetchedOffsets,
    GroupList,
    ListedGroup,
    MetadataRead,
    RemovedMembers,
    TransportError,
    node_requests,
)
from bellwether_kafka.coordinator.kafka.metadata import ABSENT, MetadataCache
from bellwether_kafka.coordinator.membership import Failure, Node, RequestFailed
from tests.simulation.brokers.broker import NODES, addressed, node, refusal

if TYPE_CHECKING:
    from tests.simulation.product.instance import ServedInstance
    from tests.simulation.product.world import ServedWorld

CONTROL_LANE = -1  # of short requests; JoinGroups have lanes from 0 on
APART = 1_000  # lanes of one transport from those of the next
RELEASE = (4, 3)
UNKNOWN_GROUP, NOT_COORDINATOR = 69, 16
SILENT = KafkaException(KafkaError(KafkaError._TRANSPORT))


class Unavailable:
    """An admin client whose requests no broker answers."""

    def __getattr__(self, name: str) -> Any:
        raise SILENT


class Transport(kafka.Transport):
    """Of one process, whose connections have its name. Methods above single requests are the product's."""

    def __init__(self, instance: "ServedInstance", ordinal: int) -> None:
        self._instance, self._world = instance, instance.world
        self._client, self._ordinal = instance.client, ordinal
        self._joins: dict[str, list[Any]] = {}  # requests on the join connections of a group
        self.pins_version = True
        self.broker_version = RELEASE

    @property
    def thread(self) -> None:
        return None

    async def start(self, timeout_ms: int = 10_000) -> None:
        """Finds brokers at once."""

    async def close(self) -> None:
        """Closes nothing: the connections end with the process."""

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed:
        self._world.checks.worked(type(command).__name__)
        if isinstance(command, membership.Sync) and command.assignments:
            self._world.checks.made(command.assignments, self._world.partitions_read)
        at = self._anywhere() if isinstance(command, membership.FindCoordinator) else command.node.node_id
        lane = 0 if isinstance(command, membership.Sync) else CONTROL_LANE
        if isinstance(command, (membership.Join, membership.Evict)) and command.lane is not None:
            lane = command.lane
        name = self._client.rsplit(".", 1)[0]

        def serve(reply: Callable[[Any], None]) -> None:
            if self._world.refuses_with and not isinstance(command, membership.FindCoordinator):
                reply(refusal(command, self._world.refuses_with))
            else:
                self._world.broker.serve(at, name, command, reply)

        joins = self._joins.setdefault(command.group_id, []) if lane != CONTROL_LANE else None
        answer = await self._call(lane, at, serve, command.timeout_ms, joins)
        if isinstance(answer, Failure):
            return RequestFailed(command.request_id, answer, answer.name)
        if self._instance.client == self._client:
            self._world.checks.roles.received(self._instance, answer)  # type: ignore[arg-type]  # it has the same role
        return addressed(answer, command.request_id)  # type: ignore[no-any-return]  # one of the answers

    def abandon(self, group_id: str) -> None:
        for call in self._joins.pop(group_id, ()):
            call.drop()

    async def _ask(self, request: Any, kind: str = "") -> Any:
        del kind
        at = request.node.node_id if request.node is not None else self._anywhere()

        def serve(reply: Callable[[Any], None]) -> None:
            if self._world.offsets_are_told or not isinstance(request, node_requests.FetchOffsets):
                reply(self._answer(at, request))

        answer = await self._call(CONTROL_LANE - 1, at, serve, request.timeout_ms)
        if isinstance(answer, Failure):
            raise TransportError(answer, answer.name)
        return answer

    def _anywhere(self) -> int:
        return self._world.rng.choice((1, 2, 3))

    async def _call(self, lane: int, at: int, serve: Any, timeout_ms: int, calls: list[Any] | None = None) -> Any:
        """Returns the answer, or the failure."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(value: Any) -> None:
            if not outcome.done():
                outcome.set_result(value)

        lane -= APART * self._ordinal
        call = self._world.network.call(self._client, lane, at, serve, timeout_ms / 1000, settle, settle)
        if calls is not None:
            calls[:] = [*(other for other in calls if not other.over), call]
        return await outcome

    def _answer(self, at: int, request: Any) -> Any:
        """What the node answers to a request that is not of a membership."""
        broker = self._world.broker
        mine = at == broker.coordinator and not broker.loading
        match request:
            case kafka.DescribeMany():
                answers: dict[str, Any] = {}
                for group in request.group_ids:
                    asked = membership.Describe(0, request.node, group, 0)
                    broker.serve(at, "", asked, partial(answers.setdefault, group))
                return answers
            case kafka.ListAllGroups():
                state = broker.group.state if mine else ""
                return GroupList(0, (ListedGroup("g", "consumer", state, "classic"),) if mine else ())
            case kafka.RemoveMembers():
                if not mine:
                    return RemovedMembers(NOT_COORDINATOR, {})
                return RemovedMembers(0, {member: broker.group.remove(member, None) for member, _ in request.members})
            case node_requests.FetchOffsets():
                return FetchedOffsets(self._world.committed_of(request.topics), 0 if mine else NOT_COORDINATOR)
            case kafka.FetchOffsetsOfMany():
                return {
                    group: FetchedOffsets(self._world.committed_of(topics), 0 if mine else NOT_COORDINATOR)
                    for group, topics in request.groups.items()
                }
            case node_requests.FindAnyOffset():
                commits = self._world.commits if mine else 0
                offsets = {"t": [commits - 1]} if commits else {}
                return AnyCommitted(bool(commits), 0 if mine else NOT_COORDINATOR, tuple(offsets), offsets)
            case kafka.LatestOffsets():
                end_of = self._world.end_of
                return {t: {p: (0, end_of(t, p)) for p in partitions} for t, partitions in request.partitions.items()}
            case kafka.DescribeManyByBroker() | kafka.DescribeByBroker():
                raise AssertionError(request)
            case node_requests.LogSizes() | kafka.TopicIds():
                return {}
        raise AssertionError(f"no broker of the simulation answers {request}")


def read(cache: MetadataCache, world: "ServedWorld", topics: Sequence[str]) -> str:
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

    _world: "ServedWorld"

    def _open(self, world: "ServedWorld") -> None:
        self._world = world
        self._clock = clocks.monotonic
        self._cache = MetadataCache()
        self._batches = Batches(self._request)
        self.last_read: MetadataRead | None = None
        self.admin = Unavailable()

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


class Reader(_OfWorld, kafka.ClusterReader):
    """Reads the topics of the world, with the product's cache."""

    def __init__(self, world: "ServedWorld") -> None:
        self._open(world)


class SharedReader(_OfWorld, kafka.SharedReader):
    def __init__(self, world: "ServedWorld") -> None:
        self._open(world)
        self._turn = asyncio.Lock()
        self._wanted: dict[str, float] = {}
        self._failed = None


class Offsets(kafka.OffsetReader):
    """Reads log ends of the world."""

    def __init__(self, world: "ServedWorld", groups: Any) -> None:
        self._groups, self._world = groups, world
        self._clock, self._wall_clock = clocks.monotonic, clocks.wall

    async def listed(self, topics: Mapping[str, int], place: Any, limit_s: float) -> Ends:
        del place, limit_s
        if not self._world.metadata:
            raise kafka.OffsetsError("offsets: no answer in time")
        await asyncio.sleep(self._world.rng.uniform(0.001, 0.01))
        end_of = self._world.end_of
        return Ends({t: np.array([end_of(t, p) for p in range(n)], dtype=np.int64) for t, n in topics.items()})

    def close(self) -> None:
        """Owns no threads."""
