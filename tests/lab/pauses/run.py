"""One application under one leader through one accident, and what its instances and the brokers report of it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.guarded import guard_command
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import RACKS, bellwether_options, check_leader, create_topics, write_topology
from tests.interop.support.streams_timeline import STALL_MS, Timeline
from tests.lab.pauses.accidents import ACCIDENTS, Instances, Lived, come_back, live_through

# The last one has no guards: each instance has a client.id, and is evacuated by an order, as a preStop hook gives it.
LEADERS = ("java", "java-leave", "bellwether", "bellwether-order")
SESSION_MS = 45_000  # Kafka's default
LIMIT_S = 300.0
KEYS = 60_300  # a multiple of the partitions of each shape
PRELOADED_PER_TASK = 15_000
WARM_S = 5.0
BUSY_MS = 4_000  # tasks without a record for so long are not measured
GRACE_S = 90
STATEFUL = 2  # subtopologies with a store
LAG = 10_000  # Kafka's default acceptable.recovery.lag
EXACTLY_ONCE = "exactly_once_v2"
TIMED_OUT = b"due to timeout"


@dataclass(frozen=True, slots=True)
class Shape:
    """An application of three subtopologies."""

    instances: int
    partitions: int
    brokers: int = 3
    commit_ms: int = 100  # under exactly-once
    soon_even: bool = True  # under Java, which gives two tasks a minute back (max.warmup.replicas)
    in_turn: bool = False  # whether records come to one partition after the other
    settings: Mapping[str, str] = field(default_factory=dict)


# Six instances and three brokers that answer each fetch as soon as a record has come keep two cores busy: tasks stand
# still whatever the leader does. A few records that come evenly show a pause as well as many.
FRUGAL = {"consumer.fetch.min.bytes": "100000", "consumer.fetch.max.wait.ms": "100"}
LARGE = partial(Shape, brokers=1, commit_ms=300, soon_even=False, in_turn=True, settings=FRUGAL)
SHAPES = {"18": Shape(3, 6), "201": LARGE(6, 67)}


@dataclass(frozen=True, slots=True)
class Case:
    """What is alike in the runs of one cell of the table."""

    leader: str
    accident: str
    shape: str = "18"
    heartbeat_ms: int = 1_000
    guarantee: str = "at_least_once"
    closing_s: float = 0.0  # that the stores of an instance take
    per_second: int = 1_500  # records

    @property
    def guarded(self) -> bool:
        return self.leader == "bellwether"

    @property
    def by_order(self) -> bool:
        return self.leader == "bellwether-order"

    @property
    def led(self) -> bool:
        return self.guarded or self.by_order

    @property
    def commit_ms(self) -> int:
        return SHAPES[self.shape].commit_ms if self.guarantee == EXACTLY_ONCE else 1_000

    @property
    def stall_ms(self) -> int:
        """What counts as a pause: under exactly-once tasks downstream see nothing from one commit to the next."""
        return STALL_MS + (SHAPES[self.shape].commit_ms - 100 if self.guarantee == EXACTLY_ONCE else 0)


@dataclass(frozen=True, slots=True)
class Pause:
    """Of one accident, in seconds in which tasks processed nothing although records came: of the slowest task and of
    all together, before the instance was started again (`away`), after it (`back`), and both."""

    away_s_max: float
    away_s_sum: float
    back_s_max: float
    back_s_sum: float
    whole_s_max: float
    whole_s_sum: float
    ended_s: float  # until the process had ended
    restored_max: int  # records that one changelog partition of an active task needed before it ran


@dataclass(frozen=True, slots=True)
class Measured:
    """One run; `load` is the machine's load average of the last minute, `before_s_max` the longest pause of a task in
    the seconds before the first accident, which only the machine can have caused."""

    case: Case
    run: int
    pauses: Sequence[Pause]
    exact: bool
    twice: int  # records counted more than once
    timed_out: int  # transactions that brokers ended for their time-out
    load: float
    before_s_max: float


def measure(cluster: KafkaCluster, case: Case, run: int, times: int) -> Measured:
    """The accident happens so many times, to each instance in turn. Raises AssertionError where the application does
    not settle, loses a record, or another leader led."""
    accident, shape = ACCIDENTS[case.accident], SHAPES[case.shape]
    name = f"pauses-{case.leader}-{case.accident}-{run}-{int(time.time())}"
    application = _application(name, case, shape)
    create_topics(cluster, application)
    how = Instances(
        guarded=case.guarded,
        empty=partial(_evacuated, cluster, name) if case.by_order else None,
        settings={} if case.by_order else DEFAULT_CLIENT_ID,
        spread=1 if case.led or shape.soon_even else None,
        limit_s=LIMIT_S,
    )
    with ExitStack() as stack:
        load = stack.enter_context(
            Load(cluster, application.topics[0], KEYS, partitions=shape.partitions if shape.in_turn else 0)
        )
        load.produce(PRELOADED_PER_TASK * shape.partitions)
        stack.enter_context(_leading(cluster, application, case))
        app = stack.enter_context(StreamsApp(cluster, application))
        for number in range(shape.instances):
            rack = RACKS[number % len(RACKS)]
            app.add(f"app-{number + 1}", rack, how.settings, _launcher(cluster, name, case))
        app.wait_settled(spread=1, limit_s=LIMIT_S)
        app.wait_counted(load.expected, limit_s=LIMIT_S)
        load.start(case.per_second)
        time.sleep(2 * WARM_S)
        before = _timed_out(cluster)
        lives = []
        for victim in islice(cycle(list(app.instances)), times):
            for away in [instance.name for instance in app.instances.values() if not instance.alive]:
                come_back(app, away, how)
                time.sleep(WARM_S)
            lives.append(live_through(app, victim, accident, how))
            time.sleep(WARM_S)  # what comes late counts, too
        load.stop()
        exact_expected = case.guarantee == EXACTLY_ONCE
        totals = app.wait_counted(load.expected, exactly_once=exact_expected, limit_s=LIMIT_S)
        check_leader(cluster, name, "bellwether" if case.led else "java")
        line = app.timeline()
        assert line.overlaps() == [], line.overlaps()
        began_ms = lives[0].began_ms
        busy = line.processed(began_ms - BUSY_MS, began_ms)
        twice = totals.seen - load.expected.seen
        return Measured(
            case,
            run,
            [pause(line, list(busy), lived, case.stall_ms) for lived in lives],
            exact=not twice and totals.windowed == load.expected.windowed,
            twice=twice,
            timed_out=_timed_out(cluster) - before,
            load=round(os.getloadavg()[0], 1),
            before_s_max=max(line.stalled_ms(busy, began_ms - BUSY_MS, began_ms, case.stall_ms).values()) / 1000,
        )


def pause(line: Timeline, tasks: Sequence[str], lived: Lived, stall_ms: int) -> Pause:
    """Of these tasks, which had records just before."""
    turn = lived.started_ms or lived.settled_ms
    windows = ((lived.began_ms, turn), (turn, lived.settled_ms), (lived.began_ms, lived.settled_ms))
    stalls = [line.stalled_ms(tasks, begin, end, stall_ms).values() if end > begin else [0] for begin, end in windows]
    away, back, whole = ((max(values) / 1000, sum(values) / 1000) for values in stalls)
    restored = line.within(lived.began_ms, lived.settled_ms, "restored")
    most = max((h.message["records"] for h in restored), default=0)
    return Pause(*away, *back, *whole, (lived.ended_ms - lived.began_ms) / 1000, most)


def _application(name: str, case: Case, shape: Shape) -> Application:
    stores = 2 * STATEFUL * shape.partitions // shape.instances  # each task has an active and a standby one
    closing_ms = int(case.closing_s * 1000 / stores)
    settings = {
        "app.leave": str(case.leader == "java-leave").lower(),
        "app.close.ms": str(closing_ms),
        "app.marks": str(KEYS),
        "app.even": str(shape.in_turn).lower(),
        **shape.settings,
    }
    return Application(
        name,
        (f"{name}-in",),
        f"{name}-out",
        shape.partitions,
        threads=2,
        standbys=1,
        guarantee=case.guarantee,
        acceptable_recovery_lag=LAG,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=case.heartbeat_ms,
        commit_interval_ms=case.commit_ms,
        rack_strategy="min_traffic",
        settings=settings,
    )


def _launcher(cluster: KafkaCluster, group: str, case: Case) -> Callable[[Path], Sequence[str]]:
    if not case.guarded:
        return lambda _: ()
    options = ("--topic", f"{group}-control", "--grace", str(GRACE_S))
    return lambda state: guard_command(cluster, group, "--state-dir", str(state), *options)


def _evacuated(cluster: KafkaCluster, group: str, name: str) -> None:
    ordered(cluster, f"{group}-control", "evacuate", group, f"member:{name}", "--wait", str(GRACE_S))


@contextmanager
def _leading(cluster: KafkaCluster, application: Application, case: Case) -> Iterator[None]:
    if not case.led:
        yield
        return
    group = application.application_id
    with TemporaryDirectory(prefix="bellwether-topology-") as directory:
        options = bellwether_options(application, write_topology(application, Path(directory)))
        control: dict[str, Any] = {"control_topic": f"{group}-control", "standby": True}
        with Bellwether(cluster, [group], options=options, **control) as process:
            try:
                yield
            except AssertionError as error:
                raise AssertionError(f"{error}\nbellwether: {process.log_of(group, 60)}") from error


def _timed_out(cluster: KafkaCluster) -> int:
    return sum(path.read_bytes().count(TIMED_OUT) for path in cluster.log_paths())
