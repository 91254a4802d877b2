"""A Streams application of three instances on three brokers, Bellwether in front of it and a guard around each of them.

Bellwether and the guards reach the brokers through a proxy, the instances do not. One scene serves many rows: after
each row everything that ended is started again.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bellwether_kafka.coordinator.control.records import PlacementOrder
from bellwether_kafka.coordinator.control.topic import TopicChannel
from tests.interop.support.bellwether import COMMAND, INSTANCE, Bellwether
from tests.interop.support.brokers import LOOPBACK, PortLease
from tests.interop.support.guarded import child_of, guard_command
from tests.interop.support.members import wait_until
from tests.interop.support.proxy import Proxy, honest
from tests.interop.support.raw import RawError, describe
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, Application, Instance, StreamsApp
from tests.interop.support.streams_led import settings_of
from tests.interop.support.streams_load import Load
from tests.measure.faults.scene import HEAP_MB, NODES, ProxiedCluster

NAMES = ("app-1", "app-2", "app-3")
SESSION_MS, HEARTBEAT_MS = 10_000, 1_000
TRANSACTION_MS = 10_000  # transaction.timeout.ms of Kafka Streams
GRACE_S = 10.0
BROKERS = {
    "default.replication.factor": str(NODES),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # 10 s by default
}
PARTITIONS, KEYS = 4, 1_000
PRELOADED, PER_SECOND = 4_000, 300
LAG = 10_000  # Kafka's default acceptable.recovery.lag, more than any changelog here has: every copy is caught up
LIMIT_S = 40.0  # times the patience of tests
REST_S = 4.0  # longer than the time between two rebalances of one hand-over
CLOSING = ("PENDING_SHUTDOWN", "NOT_RUNNING", "DEAD")
EXACTLY_ONCE = "exactly_once_v2"
# A restoring thread waits so long for a broker that has died, 60 s by default: docs/reference/client-quirks.md.
ADMIN = {"admin.request.timeout.ms": "2000", "admin.default.api.timeout.ms": "5000"}
GUARD = "bellwether guard: "


@contextmanager
def brokers() -> Iterator[ProxiedCluster]:
    inner = [PortLease() for _ in range(NODES)]
    with Proxy([lease.port for lease in inner], LOOPBACK) as proxy:
        cluster = ProxiedCluster(nodes=NODES, heap_mb=HEAP_MB, properties=BROKERS)
        cluster.proxy, cluster.inner = proxy, inner
        with cluster:
            yield cluster


@dataclass(frozen=True, slots=True)
class Setting:
    """What rows need of a scene: whether Bellwether leads (otherwise Java, without guards), and how."""

    led: bool = True
    guarded: bool = True
    standbys: int = 1
    lag: int = LAG
    command: tuple[str, ...] = COMMAND
    guard: tuple[str, ...] = ()
    session_ms: int = SESSION_MS


@dataclass
class Scene:
    """`jvm` has the process of each instance, also when its guard is gone; `node` is the broker that was ended, `known`
    are the overlaps of tasks that earlier rows have reported."""

    cluster: ProxiedCluster
    setting: Setting
    app: StreamsApp
    load: Load
    lead: Bellwether | None
    jvm: dict[str, int] = field(default_factory=dict)
    node: int | None = None
    known: set[str] = field(default_factory=set)
    per_second: int = PER_SECOND

    @property
    def group(self) -> str:
        return self.app.application.application_id

    @property
    def topic(self) -> str:
        return control_topic(self.group)

    # ---- instances ---------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        if name in self.app.instances:
            self.app.start(name, settings=DEFAULT_CLIENT_ID)
        else:
            self.app.add(name, settings=DEFAULT_CLIENT_ID, launcher=self._launcher)
        pid = self.app.instances[name].pid
        self.jvm[name] = child_of(pid, self.send) if self.setting.guarded else pid

    def terminate(self, name: str) -> None:
        """As a service manager ends it: SIGTERM to the guard, or to what the guard has left."""
        os.kill(self.instance(name).pid if self.instance(name).alive else self.jvm[name], signal.SIGTERM)

    def until_ended(self, name: str, limit_s: float = LIMIT_S) -> None:
        """A service manager ends what is left of a service whose main process is gone."""
        instance, pid = self.instance(name), self.jvm[name]
        if not instance.alive and running(pid):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not instance.alive and not running(pid), limit_s, self.send)
        instance.stop()  # its pipes

    def instance(self, name: str) -> Instance:
        return self.app.instances[name]

    # ---- what is seen ------------------------------------------------------------------------------------------------

    def rules(self) -> int:
        """How often Bellwether has said which orders on placement are in force."""
        return len(self.lead.log("rules_in_force")) if self.lead is not None else 0

    def until_emptying(self, name: str, rules: int) -> None:
        """The order is known, or the process ends without one, or its guard is gone."""
        instance = self.instance(name)
        wait_until(lambda: self.rules() > rules or instance.state in CLOSING or not instance.alive, GRACE_S, self.send)

    def until_closing(self, name: str) -> None:
        instance = self.instance(name)
        wait_until(lambda: instance.state in CLOSING or not instance.alive, 2 * GRACE_S, self.send)

    def until_joining(self, name: str) -> None:
        instance = self.instance(name)
        wait_until(lambda: instance.state in ("REBALANCING", "RUNNING"), LIMIT_S, self.send)

    def state(self) -> str:
        try:
            return describe(self.cluster.bootstrap, self.group).state
        except (RawError, OSError, TimeoutError):
            return ""

    def until_rebalancing(self) -> None:
        wait_until(lambda: self.state() not in ("Stable", ""), LIMIT_S, self.send)

    def others_run(self, name: str) -> bool:
        """Whether every task runs on another instance."""
        running = [task for one in NAMES if one != name for task in self.instance(one).running]
        return sorted(running) == sorted(self.app.application.tasks)

    def until_rests(self) -> None:
        """Waits until no rebalance has begun for a while. The session of a member that dies in one starts after it."""
        seen, since = -1, time.monotonic()

        def rests() -> bool:
            nonlocal seen, since
            now = len(rebalances(self.cluster, self.group))
            if now != seen or self.state() != "Stable":
                seen, since = now, time.monotonic()
            return time.monotonic() - since >= REST_S

        wait_until(rests, LIMIT_S, self.send)

    def led_by(self) -> str:
        found = rebalances(self.cluster, self.group)
        return "nobody" if not found else "Bellwether" if found[-1].leader.startswith(INSTANCE) else "Java"

    def orders(self) -> list[str]:
        """The orders on placement that are in force, as sentences."""
        records = TopicChannel({"bootstrap.servers": self.cluster.bootstrap}, self.topic).read()
        return [
            one.sentence for one in records.values() if isinstance(one, PlacementOrder) and one.expires_ms > now_ms()
        ]

    def guard_log(self, name: str, since: int) -> list[str]:
        log = self.instance(name).home / "stderr.log"
        text = log.read_bytes()[since:].decode(errors="replace")
        return [line.removeprefix(GUARD) for line in text.splitlines() if line.startswith(GUARD)]

    def send(self) -> str:
        message = self.lead.log_of(self.group, 20) if self.lead is not None else ""
        return f"{self.app.send()}\nbellwether:\n{message}"

    # ---- afterwards --------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything runs again, tasks are spread, and no order is left. Raises AssertionError. Bellwether may not
        lead: where members run exactly once it takes the lead back only when one restarts."""
        self.restore()
        if self.lead is not None and not self.lead.running:
            self.lead.start(wait=False)
        for name in NAMES:
            if not self.instance(name).alive:
                self.until_ended(name)
                self.start(name)
        self.app.wait_settled(spread=1, limit_s=LIMIT_S)
        if self.lead is not None:
            wait_until(lambda: not self.orders(), 5.0, lambda: f"orders are left: {self.orders()}\n{self.send()}")

    def restore(self) -> None:
        """The brokers and the network."""
        if self.cluster.proxy.rule is not honest:
            self.cluster.proxy.rule = honest
            self.cluster.proxy.cut()
        if self.node is not None:
            self.cluster.start_node(self.node)
            self.node = None

    def _launcher(self, state: Path) -> Sequence[str]:
        if not self.setting.guarded:
            return ()
        options = ("--topic", self.topic, "--grace", f"{GRACE_S:g}", *self.setting.guard)
        through = ("--bootstrap", self.cluster.proxy.addresses)
        return guard_command(self.cluster, self.group, *through, "--state-dir", str(state), *options)


@contextmanager
def scene(cluster: ProxiedCluster, name: str, setting: Setting) -> Iterator[Scene]:
    """At rest, under load, with everything counted once."""
    for topic in (f"{name}-in", f"{name}-out"):
        cluster.create_topic(topic, PARTITIONS, rf=NODES)
    application = Application(
        name,
        (f"{name}-in",),
        f"{name}-out",
        PARTITIONS,
        standbys=setting.standbys,
        guarantee=EXACTLY_ONCE,
        acceptable_recovery_lag=setting.lag,
        session_timeout_ms=setting.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        commit_interval_ms=200,
        settings={"app.marks": str(KEYS), **ADMIN},
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bellwether-topology-")))
        lead = stack.enter_context(_bellwether(cluster, application, setting, folder)) if setting.led else None
        load = stack.enter_context(Load(cluster, application.topics[0], KEYS))
        load.produce(PRELOADED)
        app = stack.enter_context(StreamsApp(cluster, application))
        found = Scene(cluster, setting, app, load, lead)
        stack.callback(_end_all, found)
        for each in NAMES:
            found.start(each)
        app.wait_settled(spread=1, limit_s=2 * LIMIT_S)
        app.wait_counted(load.expected, limit_s=LIMIT_S)
        load.start(PER_SECOND)
        stack.callback(found.restore)
        yield found


def control_topic(group: str) -> str:
    return f"{group}-control"


def running(pid: int) -> bool:
    """Not a process that has ended, also where nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _bellwether(cluster: ProxiedCluster, application: Application, setting: Setting, folder: Path) -> Bellwether:
    options = settings_of(application, folder, policy="streams-ha", stores="persistent", session_timeout_ms=SESSION_MS)
    return Bellwether(
        cluster,
        [application.application_id],
        options=options,
        login={"bootstrap.servers": cluster.proxy.addresses},
        command=setting.command,
        control_topic=control_topic(application.application_id),
        standby=True,
    )


def _end_all(found: Scene) -> None:
    """Also what is stopped, or has lost its guard."""
    for pid in found.jvm.values():
        if running(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)


def now_ms() -> int:
    return int(time.time() * 1000)
