"""A running Streams application of two instances that is taken over, and what its tasks were without."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import Rebalance, last_rebalance, rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import app_without_members_in_the_way
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import bellwether_options, create_topics, write_topology
from tests.interop.support.streams_timeline import Timeline


@dataclass(frozen=True, slots=True)
class TakenApplication:
    """What it did. `unowned_ms` by task. `closing_ms`, `parted_ms` and `opening_ms` are the removed thread's own: from
    the first task that it gave up to the loss of all, from there to its assignment, from there to its last task's work.
    """

    adopted: tuple[str, ...]
    moved: int
    unowned_ms: Mapping[str, int]
    closing_ms: int
    parted_ms: int
    opening_ms: int
    restored: int
    written: int
    rebalances: tuple[Rebalance, ...]
    overlaps: tuple[str, ...]


def take_over_application(
    kafka: KafkaCluster, name: str, folder: Path, session_timeout_ms: int, patience: Mapping[str, int]
) -> TakenApplication:
    """Under load, and hands it back at the end."""
    # The removed thread comes back with its last checkpoint. How far that is behind depends on the machine; where it is
    # further behind than what is acceptable, its tasks rightly go to their standbys.
    application = Application(
        name,
        (f"{name}-in",),
        f"{name}-out",
        4,
        standbys=1,
        session_timeout_ms=session_timeout_ms,
        acceptable_recovery_lag=1_000_000,
    )
    create_topics(kafka, application)
    topology = write_topology(application, folder)
    with StreamsApp(kafka, application) as app, Load(kafka, application.topics[0], keys=300) as load:
        load.produce(3_000)
        app.add("one", "az1")
        app.add("two", "az2")
        app_without_members_in_the_way(kafka, app)
        before = app.wait_settled(spread=1)
        app.wait_counted(load.expected)
        load.start(500)
        time.sleep(2)
        led_before = last_rebalance(kafka, name)
        began_ms = int(time.time() * 1000)
        takes = {"adopt": "take-over", "stores": "persistent", "evictions_max": 2, **patience}
        with Bellwether(kafka, [name], options=bellwether_options(application, topology) | takes) as lead:
            wait_until(lambda: last_rebalance(kafka, name).leader.startswith(INSTANCE), 60, lambda: lead.log_of(name))
            after = app.wait_settled()
            ended_ms = int(time.time() * 1000)
            load.stop()
            # The removed thread gives its tasks up without a commit: what it had not committed is read again.
            app.wait_counted(load.expected, exactly_once=False)
            line = app.timeline()
            # A probing rebalance of the application's own may come before Bellwether does.
            since = (rebalance for rebalance in rebalances(kafka, name, led_before.generation) if rebalance.members > 2)
            closing_ms, parted_ms, opening_ms = _steps(line, began_ms, ended_ms)
            return TakenApplication(
                adopted=tuple(entry["reason"] for entry in lead.log("membership", what="ADOPTED")),
                moved=sum(after[task] != owner for task, owner in before.items()),
                unowned_ms={t: ms for t, ms in line.unowned_ms(application.tasks, began_ms, ended_ms).items() if ms},
                closing_ms=closing_ms,
                parted_ms=parted_ms,
                opening_ms=opening_ms,
                restored=line.restored(began_ms, ended_ms),
                written=load.expected.distinct,
                rebalances=tuple(since),
                overlaps=tuple(line.overlaps()),
            )


def _steps(line: Timeline, began_ms: int, ended_ms: int) -> tuple[int, int, int]:
    lost = line.within(began_ms, ended_ms, "lost")
    if not lost:
        return 0, 0, 0
    at, who = lost[0].t_ms, lost[0].instance
    given_up = [h.t_ms for h in line.within(began_ms, at, "suspended") if h.instance == who]
    assigned = min((h.t_ms for h in line.within(at, ended_ms, "assigned") if h.instance == who), default=ended_ms)
    running = [h.t_ms for h in line.within(assigned, ended_ms, "running") if h.instance == who]
    return at - min(given_up, default=at), assigned - at, max(running, default=assigned) - assigned
