"""A led group on three real brokers behind a proxy each: two Java consumers at rest under Bellwether, then a fault,
then a third consumer, which begins a rebalance."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.interop.support.bellwether import COMMAND, Bellwether
from tests.interop.support.brokers import KafkaCluster, Node
from tests.interop.support.members import Flock
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.proxy import Delivery, Frame, Proxy, Rule, Ruling, honest
from tests.interop.support.scenes.kill_points import (
    MARGIN_S,
    OPTIONS,
    PARTITIONS,
    SESSION_S,
    TOPIC,
    Group,
    plain_rebalance,
)

NODES = 3
HEAP_MB = 256
DECISION_S = OPTIONS["decision_deadline_ms"] / 1000
RuleMaker = Callable[[], Rule]


class ProxiedCluster(KafkaCluster):
    """Nodes with a second listener, whose advertised address is the proxy's."""

    proxy: Proxy
    inner: list[PortLease]

    def _configuration(self, node: Node) -> dict[str, str]:
        config = super()._configuration(node)
        at = node.node_id - 1
        config["listeners"] += f",PROXIED://{LOOPBACK}:{self.inner[at].port}"
        config["advertised.listeners"] += f",PROXIED://{self.proxy.host}:{self.proxy.ports[at]}"
        config["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        return config


@dataclass(frozen=True, slots=True)
class ProxiedStage:
    """`ordinary_s`: how long a rebalance takes among members alone."""

    cluster: ProxiedCluster
    flock: Flock
    ordinary_s: float

    @property
    def at_once_s(self) -> float:
        """What is promised where requests of Bellwether reach the broker."""
        return self.ordinary_s + MARGIN_S

    @property
    def silent_s(self) -> float:
        """What is promised where no request of Bellwether reaches the broker."""
        return SESSION_S + DECISION_S + self.at_once_s


@contextmanager
def proxied_cluster() -> Iterator[ProxiedCluster]:
    """Three brokers, each behind a proxy for those who ask `proxy.addresses`."""
    with ExitStack() as stack:
        inner = [PortLease() for _ in range(NODES)]
        for lease in inner:
            stack.callback(lease.release)
        proxy = stack.enter_context(Proxy([lease.port for lease in inner], LOOPBACK))
        cluster = ProxiedCluster(nodes=NODES, heap_mb=HEAP_MB)
        cluster.proxy, cluster.inner = proxy, inner
        yield stack.enter_context(cluster)


@contextmanager
def proxied_stage() -> Iterator[ProxiedStage]:
    with proxied_cluster() as cluster, Flock(cluster.bootstrap) as flock:
        cluster.create_topic(TOPIC, PARTITIONS, rf=NODES)
        ordinary_s = max(plain_rebalance(cluster, flock, f"alone-{i}") for i in range(2))
        yield ProxiedStage(cluster, flock, ordinary_s)


@dataclass(frozen=True, slots=True)
class ProxiedScene:
    """A group of two members at rest under an instance that reaches the brokers through the proxy."""

    proxy: Proxy
    group: Group
    lead: Bellwether

    def joined_s(self) -> float:
        """A third member joins. Returns the seconds until every partition has an owner."""
        began = time.monotonic()
        self.group.members.append(self.group.member())
        return self.group.until_owned(began)

    def joined_under_s(self, rule: Rule, heal_after_s: float) -> float:
        """The same under this rule, which ends so many seconds later. Raises AssertionError if it never applied."""
        self.proxy.ruled.clear()
        self.proxy.rule = rule
        try:
            took_s = self.joined_s()
            time.sleep(heal_after_s)
            assert self.proxy.ruled, "the fault never came about"
        finally:
            self.proxy.rule = honest
        return took_s


@contextmanager
def led_through_proxy(
    stage: ProxiedStage, name: str, command: tuple[str, ...] = tuple(COMMAND)
) -> Iterator[ProxiedScene]:
    """At the end the group has to be at rest, without errors of members and without assignments of no bytes."""
    group = Group(stage.cluster, stage.flock, name)
    login = {"bootstrap.servers": stage.cluster.proxy.addresses}
    try:
        with Bellwether(stage.cluster, [name], options=OPTIONS, login=login, command=command) as lead:
            group.start()
            yield ProxiedScene(proxy=stage.cluster.proxy, group=group, lead=lead)
            group.settle()
            assert group.trouble() == ()
            assert lead.running, lead.tail(10)
    finally:
        stage.cluster.proxy.rule = honest
        group.close()


def once(api: int, delivery: Delivery, *, answer: bool) -> Rule:
    """For the first request, or answer, of this API."""
    hit: list[Frame] = []

    def rule(frame: Frame) -> Ruling:
        if hit or frame.api != api or frame.answer is not answer:
            return Ruling()
        hit.append(frame)
        return Ruling(delivery, 0.001)

    return rule


def always(
    delivery: Delivery, *, answers: bool = True, requests: bool = True, delay_s: float = 0.0, bytes_per_s: int = 0
) -> Rule:
    ruling = Ruling(delivery, delay_s, bytes_per_s)
    return lambda frame: ruling if (answers if frame.answer else requests) else Ruling()
