"""What restarts cost a Streams application, with and without the removal of members that have died.

Default session of 45 s, default heartbeats of 3 s unless said otherwise, default client ids. Instances get SIGTERM and
start again at once on their old state, one after the other, each after the group has come to rest. `how` is one of:

java     the application leads itself, and nothing removes dead members
assist   the application leads itself, Bellwether removes dead members from outside
lead     Bellwether leads and removes dead members
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.raw import RawMember, describe
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import bellwether_options, check_leader, write_topology

PARTITIONS = 4
SESSION_MS = 45_000
DAY_S = 86_400
KEYS = 5_000
RECORDS = 20_000
QUIET_S = 3.0
LIMIT_S = 150.0
CAME = r"joins group {group} in Stable state"
PLANNED = r"Assignment received from leader \S+ for group {group} for generation"
TIME = re.compile(r"(\d\d):(\d\d):(\d\d\.\d{3}) ")


@dataclass(frozen=True, slots=True)
class Cost:
    """One run. Unowned: no instance runs the task, in seconds from the first SIGTERM until the application rests again.

    `back_s`: per restart, from the first JoinGroup of the new process to the plan for a generation with it.
    """

    how: str
    instances: int
    threads: int
    heartbeat_ms: int
    restarts: int
    unowned_s_max: float
    unowned_s_sum: float
    back_s: tuple[float, ...]
    took_s: float
    removed: int
    load: float


def application(name: str, threads: int, heartbeat_ms: int) -> Application:
    return Application(
        name,
        (f"{name}-in",),
        f"{name}-out",
        PARTITIONS,
        threads=threads,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=heartbeat_ms,
    )


@contextmanager
def assisting(cluster: KafkaCluster, group: str, **options: Any) -> Iterator[Bellwether]:
    """Bellwether in the mode `assist`, which joins nothing that one could wait for."""
    process = Bellwether(cluster, [group], options={"mode": "assist", **options})
    try:
        process.start(wait=False)
        yield process
    finally:
        process.__exit__(None, None, None)


def freed_of_a_ghost(cluster: KafkaCluster, group: str, assist: Bellwether) -> None:
    """A plain member rests in its group, dies without a word, and comes back under its client id, long before its
    session ends: so long that no slow machine is taken for a broker that expelled it. Raises AssertionError where that
    takes longer than it should."""
    session_ms = 240_000
    protocols = [("range", ConsumerProtocolSubscription().encode())]
    dead = RawMember(cluster.bootstrap, group, protocols, session_ms=session_ms)
    dead.rebalance()
    wait_until(lambda: bool(assist.log("online_conversion", group=group)), 90, assist.tail)
    dead._connection.close()
    with RawMember(cluster.bootstrap, group, protocols, session_ms=session_ms) as successor:
        began = time.monotonic()
        successor.rebalance()
        assert time.monotonic() - began < session_ms / 4_000, assist.tail()
        assert [m.member_id for m in describe(cluster.bootstrap, group).members] == [successor.member_id]
    (note,) = assist.logged("ghosts", group=group, what="GHOST")
    assert "its client id has joined again" in note["reason"]


def create_topics(cluster: KafkaCluster, app: Application) -> None:
    """All of them: a leader that lacks information on internal topics would leave their creation to Java."""
    internal = [app.sources[s] + app.changelogs[s] for s in app.changelogs]
    for topic in (*app.topics, app.output, *chain.from_iterable(internal)):
        cluster.create_topic(topic, PARTITIONS)


@contextmanager
def attended(cluster: KafkaCluster, how: str, app: Application) -> Iterator[Bellwether | None]:
    """Bellwether in the mode of this name while the block runs; nobody for java."""
    if how == "java":
        yield None
        return
    with TemporaryDirectory(prefix="bellwether-topology-") as directory, ExitStack() as stack:
        if how == "lead":
            options = bellwether_options(app, write_topology(app, Path(directory)), "kafka")
            process = stack.enter_context(Bellwether(cluster, [app.application_id], options=options))
        else:
            process = stack.enter_context(assisting(cluster, app.application_id))
        try:
            yield process
        except AssertionError as error:
            raise AssertionError(f"{error}\nbellwether: {process.log_of(app.application_id, 60)}") from error


def restart(app: StreamsApp, name: str) -> None:
    assert app.instances[name].stop() == 0, app.send()
    app.start(name, settings=DEFAULT_CLIENT_ID)
    app.wait_settled(quiet_s=QUIET_S, limit_s=LIMIT_S)


def measure(
    cluster: KafkaCluster, how: str, *, instances: int, threads: int, restarts: int, heartbeat_ms: int = 3_000
) -> Cost:
    """One run on these brokers. Raises AssertionError when the application does not come to rest."""
    app_config = application(f"ghosts-{how}-{int(time.time())}", threads, heartbeat_ms)
    group = app_config.application_id
    with ExitStack() as stack:
        create_topics(cluster, app_config)
        load = stack.enter_context(Load(cluster, app_config.topics[0], KEYS))
        load.produce(RECORDS)
        bellwether = stack.enter_context(attended(cluster, how, app_config))
        app = stack.enter_context(StreamsApp(cluster, app_config))
        for number in range(instances):
            app.add(f"app-{number + 1}", settings=DEFAULT_CLIENT_ID)
        app.wait_settled(quiet_s=QUIET_S, limit_s=LIMIT_S)
        app.wait_counted(load.expected, limit_s=LIMIT_S)
        began = time.time()
        for number in range(restarts):
            restart(app, f"app-{number + 1}")
        line = app.timeline()
        began_ms = int(began * 1000)
        ended_ms = line.last_change_ms(began_ms)
        assert line.overlaps() == [], line.overlaps()
        app.wait_counted(load.expected, limit_s=LIMIT_S)
        check_leader(cluster, group, "bellwether" if how == "lead" else "java")
        unowned = line.unowned_ms(app_config.tasks, began_ms, ended_ms).values()
        notes = bellwether.log("ghosts", group=group, what="GHOST") if bellwether is not None else []
        return Cost(
            how,
            instances,
            threads,
            heartbeat_ms,
            restarts,
            max(unowned) / 1000,
            sum(unowned) / 1000,
            back_s(cluster, group, began),
            (ended_ms - began_ms) / 1000,
            len(notes),
            round(os.getloadavg()[0], 1),
        )


def back_s(cluster: KafkaCluster, group: str, began: float) -> tuple[float, ...]:
    """Seconds from the first JoinGroup into the group at rest to the next plan, per wait, by the broker's own log."""
    came, planned = (re.compile(pattern.format(group=re.escape(group))) for pattern in (CAME, PLANNED))
    waits: list[float] = []
    since: float | None = None
    for path in cluster.log_paths():
        for line in path.read_text(errors="replace").splitlines():
            at = _seconds_after(began, line)
            if at is None or at > DAY_S / 2:  # before
                continue
            if since is None and came.search(line):
                since = at
            elif since is not None and planned.search(line):
                waits.append(round(at - since, 2))
                since = None
    return tuple(waits)


def _seconds_after(began: float, line: str) -> float | None:
    """The broker writes local time without a date, so a time before is almost a day after."""
    hit, local = TIME.match(line), time.localtime(began)
    if hit is None:
        return None
    of_day = int(hit[1]) * 3600 + int(hit[2]) * 60 + float(hit[3])
    return (of_day - (local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec)) % DAY_S
