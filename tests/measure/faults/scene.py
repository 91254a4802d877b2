"""A led group on three real brokers behind a proxy each, and how a row is measured: two Java consumers at rest under
us, the fault, a third consumer.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import LOOPBACK, KafkaCluster, Node, PortLease
from tests.interop.support.members import Flock
from tests.interop.support.proxy import Proxy, honest
from tests.interop.support.scenes.kill_points import (
    LIMIT_S,
    MARGIN_S,
    OPTIONS,
    PARTITIONS,
    SESSION_S,
    TOPIC,
    Group,
    plain_rebalance,
)
from tests.measure.faults.rows import Row

NODES = 3
HEAP_MB = 256
DECISION_S = OPTIONS["decision_deadline_ms"] / 1000


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


class Promises:
    """What is promised, beside what the same round takes members alone."""

    __slots__ = ()
    ordinary_s: float

    @property
    def at_once_s(self) -> float:
        """What is promised where nothing keeps us from being heard."""
        return self.ordinary_s + MARGIN_S

    @property
    def silent_s(self) -> float:
        """What is promised where we cannot be heard."""
        return SESSION_S + DECISION_S + self.at_once_s


@dataclass(frozen=True, slots=True)
class Stage(Promises):
    """Brokers, Java consumers for them, and how long a round takes among members alone."""

    cluster: ProxiedCluster
    flock: Flock
    ordinary_s: float


@contextmanager
def stage(host: str = LOOPBACK) -> Iterator[Stage]:
    inner = [PortLease() for _ in range(NODES)]
    with Proxy([lease.port for lease in inner], host) as proxy:
        cluster = ProxiedCluster(nodes=NODES, heap_mb=HEAP_MB)
        cluster.proxy, cluster.inner = proxy, inner
        with cluster, Flock(cluster.bootstrap) as flock:
            cluster.create_topic(TOPIC, PARTITIONS, rf=NODES)
            yield Stage(cluster, flock, max(plain_rebalance(cluster, flock, f"alone-{i}") for i in range(2)))


@dataclass(frozen=True, slots=True)
class Scene:
    """A group of two members at rest under us. `message`: what else the row has to tell; `beside`: what ends after
    it."""

    cluster: ProxiedCluster
    group: Group
    lead: Bellwether
    message: list[str] = field(default_factory=list)
    beside: ExitStack = field(default_factory=ExitStack)

    @property
    def proxy(self) -> Proxy:
        return self.cluster.proxy

    def joined(self) -> float:
        """A third member comes; how long until everything is owned."""
        began = time.monotonic()
        self.group.members.append(self.group.member())
        return self.group.until_owned(began)

    def led_by(self) -> str:
        return "the sidecar" if self.group.last().leader.startswith(f"{INSTANCE}-") else "a member"


Work = Callable[[Scene], float]


def measure(
    stage: Stage,
    kind: str,
    name: str,
    fault: str,
    promised_s: float,
    work: Work,
    *,
    make: Callable[[Stage, str], Group] | None = None,
    options: Mapping[str, Any] | None = None,
    ends: bool = False,
    reports_leader: bool = True,
    **how: Any,
) -> Row:
    """One row, with a group and an instance of its own. `ends`: the fault may end the instance."""
    cluster = stage.cluster
    group = make(stage, name) if make is not None else Group(cluster, stage.flock, name)
    login = {"bootstrap.servers": cluster.proxy.addresses}
    took_s, leader, message = LIMIT_S, "nobody", list[str]()
    broken: tuple[str, ...] = ()
    try:
        with (
            Bellwether(cluster, [name], options={**OPTIONS, **(options or {})}, login=login, **how) as lead,
            ExitStack() as beside,
        ):
            group.start()
            scene = Scene(cluster, group, lead, message, beside)
            try:
                took_s = work(scene)
                group.settle()
                broken = group.trouble()
            except AssertionError as error:
                broken = (str(error)[:400], lead.tail(6))
            leader = scene.led_by()
            if not lead.running and not ends:
                broken = (*broken, f"the sidecar has ended: {lead.tail(10)}")
    except AssertionError as error:
        broken = (*broken, str(error)[:400])
    finally:
        cluster.proxy.rule = honest
        for member in group.members:
            member.stop()
    outcome = "; ".join([*([f"led by {leader}"] if reports_leader else []), *message])
    return print_result(Row(kind, fault, took_s, promised_s, outcome, broken, load()))


def load() -> float:
    return os.getloadavg()[0]


def print_result(row: Row) -> Row:
    print(row, flush=True)
    return row
