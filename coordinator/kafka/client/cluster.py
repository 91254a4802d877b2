"""Reads the cluster through confluent-kafka's admin client: topics, partitions, replica racks. Owns its threads.

Reads must not create topics. The admin client is a producer underneath, whose metadata requests would create them,
hence "allow.auto.create.topics" is off. Few topics are read one by one, because only then the broker answers "not
authorized" instead of leaving the topic out. Many topics are read with one request, and the missing ones one by one.
(DescribeTopics would need only one request, but takes fifteen times as long in Python objects: 3.8 s against 0.25 s,
measured for 100,000 partitions.)
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource

from bellwether_kafka.assignors.shared import ClusterView, IntArray
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import metadata
from bellwether_kafka.coordinator.kafka.client.librdkafka import SILENCE, Delegate, Renewed, grant, librdkafka_client
from bellwether_kafka.coordinator.kafka.wire import Give, InSync, Together, librdkafka_properties
from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.protocol.primitives import is_topic_name

ONE_BY_ONE_LIMIT = 200
READER_THREADS = 4
VIEWED_AT_ONCE = 10_000  # partitions; below this, making a view is faster than handing it to a thread
REQUEST_TIMEOUT_S = 10.0
SHARED_AGE_MS = 30_000
FAILED_AGAIN_S = 5.0
CLEANUP = "cleanup.policy"
SELECTOR, RACK_AWARE = "replica.selector.class", "RackAwareReplicaSelector"
UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
# librdkafka's own errors are public names that begin with an underscore.
LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001
TLS = frozenset({KafkaError._SSL})  # noqa: SLF001

Answer = TypeVar("Answer")
TopicAnswer = tuple[str, str | None, list[metadata.ReplicaSet], IntArray]

log = structlog.get_logger(__name__)


_STATE = re.compile(r" \(after \d+ms in state .*\)$")  # in librdkafka's sentences; it differs each time
_ADVERTISED = re.compile(r"\S+:\d+/\d+: ")  # a broker by its number is one that another has named
REASONS_SHOWN = 3


class ClusterUnreachableError(Exception):
    """No broker answered in time. The message is a sentence that names bootstrap.servers or the setting to check."""


class ClusterReader:
    """Cached, dated reads of the cluster. Call its methods in one event loop; requests run in threads. `properties` are
    librdkafka's. The racks of brokers that are down are kept."""

    def __init__(self, properties: Mapping[str, str], *, clock: Callable[[], float] = clocks.monotonic) -> None:
        self._clock = clock
        self._cache = metadata.MetadataCache()
        self._errors: list[KafkaError] = []
        self._bootstrap = properties.get("bootstrap.servers", "")
        own_settings: dict[str, Any] = {
            "log_level": 2,
            **librdkafka_properties(properties),
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": -1,
            "error_cb": self._errors.append,
        }
        self._renewed = Renewed(lambda: librdkafka_client(AdminClient, own_settings), own_settings)
        self.admin = cast("AdminClient", Delegate(self._renewed))  # has an AdminClient's methods, but is none
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="cluster-reader")
        self._together: Together[list[str], str] = Together(self._read_together)
        self.last_read: metadata.MetadataRead | None = None

    async def nodes(self) -> tuple[Node, ...]:
        """Returns all brokers, with their advertised addresses. Raises ClusterUnreachableError."""
        try:
            brokers = await self._in_thread(self._brokers)
        except KafkaException as error:
            raise ClusterUnreachableError(self._why_unreachable(error)) from error
        return tuple(Node(int(node.id), node.host, node.port) for node in brokers)

    async def read(self, topics: Iterable[str], age_ms_max: int = 0) -> metadata.MetadataRead:
        """Returns the metadata of the topics. Reads those again whose last read is older than `age_ms_max`.

        If no broker answers, older reads are used (`read_at` gives their age). Raises ClusterUnreachableError if a
        topic was never read.
        """
        asked = frozenset(topics)
        now = self._clock()
        stale = self._cache.stale(asked, now - age_ms_max / 1000)
        if stale:
            await self._refresh(stale)
        return self._cache.read(asked, now)

    async def snapshot(self, topics: Iterable[str], age_ms_max: int) -> ClusterView:
        """Returns the assignors' view of exactly these topics, at most `age_ms_max` old if brokers answer. Topics that
        do not exist are left out; topics that cannot be read are in `unreadable`."""
        self.last_read = read = await self.read(topics, age_ms_max)
        if len(read.codes) <= VIEWED_AT_ONCE:
            return metadata.cluster_view(read)
        return await self._in_thread(metadata.cluster_view, read)

    def expire(self, topics: Iterable[str]) -> None:
        """Makes the next read request these topics, because they have changed or are gone."""
        for topic in topics:
            self._cache.expire(topic)

    def close(self) -> None:
        """Shuts the threads down. Pending requests end by their own timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _refresh(self, topics: list[str]) -> None:
        unreachable = await self._together.ask(topics)
        if unreachable and not self._were_read(topics):
            raise ClusterUnreachableError(unreachable)

    def _were_read(self, topics: list[str]) -> bool:
        return all(topic in self._cache.topics for topic in topics)

    async def _read_together(self, asked: Sequence[list[str]], give: Give[str]) -> None:
        unreachable = await self._request(sorted(frozenset().union(*asked)))
        for position in range(len(asked)):
            give(position, unreachable)

    async def _request(self, topics: list[str]) -> str:
        """Reads the topics into the cache. Returns why no broker answered, "" if one did."""
        read_at = self._clock()
        await self._in_thread(self._renewed.refresh)
        try:
            brokers, outcomes = await asyncio.gather(self._in_thread(self._brokers), self._topics(topics))
        except KafkaException as error:
            sentence = self._why_unreachable(error)
            if self._were_read(topics):
                log.warning("metadata_stale", reason=sentence)
            return sentence
        self._cache.see_brokers({int(node.id): node.rack for node in brokers})
        for topic, trouble, distinct, codes in outcomes:
            if trouble is None:
                self._cache.see_topic(topic, read_at, distinct, codes)
                continue
            self._cache.see_trouble(topic, read_at, trouble)
            if trouble != metadata.ABSENT:
                reason = f"{trouble}; if it exists, {grant('DESCRIBE', 'Topic', topic)}"
                log.warning("topic_unreadable", topic=topic, reason=reason)
        return ""

    async def _topics(self, topics: list[str]) -> list[TopicAnswer]:
        if len(topics) <= ONE_BY_ONE_LIMIT:
            return list(await asyncio.gather(*(self._in_thread(self._one_topic, topic) for topic in topics)))
        answers = await self._in_thread(self._all_topics, frozenset(topics))
        seen = {outcome[0] for outcome in answers}
        missing = [topic for topic in topics if topic not in seen]
        return answers + list(await asyncio.gather(*(self._in_thread(self._one_topic, topic) for topic in missing)))

    def _brokers(self) -> list[Any]:
        described = self.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return cast("list[Any]", described.result(REQUEST_TIMEOUT_S + 1).nodes)

    def _one_topic(self, topic: str) -> TopicAnswer:
        try:
            return _outcome(self.admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic])
        except KafkaException as error:
            if error.args[0].code() in SILENCE:
                raise
            return (topic, error.args[0].str(), [], metadata.NO_CODES)
        except RuntimeError as error:  # librdkafka refuses a name that is too long without a request
            return (topic, str(error), [], metadata.NO_CODES)

    def _all_topics(self, topics: frozenset[str]) -> list[TopicAnswer]:
        listed = self.admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        return [_outcome(listed[topic]) for topic in topics if topic in listed]

    async def _in_thread(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _why_unreachable(self, error: KafkaException) -> str:
        self.admin.poll(0)  # delivers errors of the client's own threads, such as a refused login
        details, self._errors[:] = list(self._errors), []
        answered = bool(self._cache.online)
        return unreachable_sentence(self._bootstrap, [error.args[0], *details], REQUEST_TIMEOUT_S, answered=answered)


class SharedReader(ClusterReader):
    """A reader for observers of many groups. When one group needs a topic, the topics of all groups are read together,
    and the result is reused for `SHARED_AGE_MS`. No action is based on it."""

    def __init__(self, properties: Mapping[str, str], *, clock: Callable[[], float] = clocks.monotonic) -> None:
        super().__init__(properties, clock=clock)
        self._turn = asyncio.Lock()
        self._wanted: dict[str, float] = {}  # when a topic was asked for last, monotonic
        self._failed: tuple[float, ClusterUnreachableError] | None = None

    async def read(self, topics: Iterable[str], age_ms_max: int = 0) -> metadata.MetadataRead:
        asked, age_s = frozenset(topics), max(age_ms_max, SHARED_AGE_MS) / 1000
        self._wanted.update(dict.fromkeys(asked, self._clock()))
        if self._cache.stale(asked, self._clock() - age_s):
            async with self._turn:
                if self._cache.stale(asked, self._clock() - age_s):
                    await self._refresh_all(age_s)
        return await super().read(asked, int(age_s * 1000))

    async def _refresh_all(self, age_s: float) -> None:
        """Reads the stale topics together with those that will soon be stale, so that one read serves all groups. After
        a failure, callers that wait for their turn get the same error without another request."""
        now = self._clock()
        if self._failed is not None and now - self._failed[0] < FAILED_AGAIN_S:
            raise self._failed[1]
        self._wanted = {topic: at for topic, at in self._wanted.items() if now - at <= 2 * age_s}
        try:
            await self._refresh(self._cache.stale(self._wanted, now - age_s / 2))
        except ClusterUnreachableError as error:
            self._failed = (self._clock(), error)
            raise
        self._failed = None


def _outcome(topic: Any) -> TopicAnswer:
    if topic.error is not None:
        trouble = metadata.ABSENT if topic.error.code() in UNKNOWN else topic.error.str()
        return (topic.topic, trouble, [], metadata.NO_CODES)
    partitions = topic.partitions
    distinct, codes = metadata.distinct_placements(
        (partitions[p].leader, tuple(partitions[p].replicas)) for p in range(len(partitions)) if p in partitions
    )
    return (topic.topic, None, distinct, codes)


def unreachable_sentence(
    bootstrap: str, errors: Iterable[KafkaError], timeout_s: float, *, answered: bool = False
) -> str:
    """Returns a sentence on why no broker answered, with the setting to check. `answered`: brokers have until now, so
    that the addresses which they advertise are right."""
    errors = list(errors)
    codes = {error.code() for error in errors}
    texts = list(dict.fromkeys(_STATE.sub("", error.str().strip()) for error in errors))
    text = "; ".join(texts)
    if codes & LOGIN:
        return f"The brokers at {bootstrap} refused the login; check sasl.username and sasl.password ({text})."
    if codes & TLS:
        return f"No TLS connection to {bootstrap}; check security.protocol and ssl.ca.location ({text})."
    advertised = [said for said in texts if _ADVERTISED.match(said)]
    if advertised and not answered:
        return (
            f"A broker at {bootstrap} answered, but the addresses that brokers advertise do not work"
            f" ({'; '.join(advertised[:REASONS_SHOWN])}); correct advertised.listeners of the brokers, or make these"
            " addresses work from here."
        )
    of_servers = [said for said in texts if "/bootstrap: " in said] or advertised
    why = f" ({'; '.join(of_servers[:REASONS_SHOWN])})" if of_servers else ""
    check = "check bootstrap.servers and security.protocol"
    return f"No broker at {bootstrap} answered within {timeout_s:g} s; {check}{why}."


def all_nodes(admin: AdminClient, limit_s: float) -> tuple[Node, ...]:
    """Returns the brokers that are up, at least one. Raises KafkaException or TimeoutError if none answers."""
    described = admin.describe_cluster(request_timeout=limit_s).result(limit_s + 1)
    if not described.nodes:
        raise TimeoutError("a broker that has just started knows no brokers yet")
    return tuple(Node(int(node.id), node.host, int(node.port)) for node in described.nodes)


def in_sync_replicas(admin: AdminClient, topics: Iterable[str], limit_s: float) -> InSync:
    """Returns the brokers that are up, each with the partitions of these topics that it has an in-sync replica of.
    Raises KafkaException or TimeoutError, also if there are partitions and no such broker."""
    names = [topic for topic in topics if is_topic_name(topic)]
    if not names:
        return {}
    asked = admin.describe_topics(TopicCollection(names), request_timeout=limit_s)
    described = {name: answer.result(limit_s + 1).partitions for name, answer in asked.items()}
    up = {node.node_id: node for node in all_nodes(admin, limit_s)}
    replicas: InSync = {}
    for name, partitions in described.items():
        for partition in partitions:
            for node in (up[int(replica.id)] for replica in partition.isr if int(replica.id) in up):
                replicas.setdefault(node, set()).add((name, int(partition.id)))
    if not replicas and any(described.values()):
        raise TimeoutError("no broker with an in-sync replica is up")
    return replicas


def any_node(admin: AdminClient, limit_s: float) -> Node:
    """Returns a broker that is up. Raises KafkaException or TimeoutError if none answers."""
    return all_nodes(admin, limit_s)[0]


def compacted_topics(admin: AdminClient, topics: Iterable[str], limit_s: float) -> dict[str, bool]:
    """Returns whether each topic is compacted. Topics whose configs cannot be read are left out (this needs
    DESCRIBE_CONFIGS on each)."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics if is_topic_name(topic)]
    if not resources:
        return {}
    compacted = dict[str, bool]()
    try:
        for resource, answer in admin.describe_configs(resources, request_timeout=limit_s).items():
            with suppress(KafkaException, TimeoutError):
                policy = answer.result(limit_s + 1).get(CLEANUP)
                if policy is not None:
                    compacted[str(resource.name)] = "compact" in str(policy.value)
    except KafkaException:
        return {}
    return compacted


def follower_fetching(admin: AdminClient, limit_s: float) -> bool | None:
    """Returns whether consumers may fetch from the replica in their own rack (KIP-392), by the configuration of one
    broker. None if unknown: without DESCRIBE_CONFIGS on the cluster, or with a selector that Bellwether does not
    know."""
    try:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(any_node(admin, limit_s).node_id))
        broker_config = admin.describe_configs([resource], request_timeout=limit_s)[resource].result(limit_s + 1)
    except (KafkaException, TimeoutError, IndexError):
        return None
    selector = broker_config[SELECTOR].value if SELECTOR in broker_config else None
    if not selector:
        return False
    return True if selector.endswith(RACK_AWARE) else None
