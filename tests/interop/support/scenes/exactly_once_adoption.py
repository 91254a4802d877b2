"""Adopts a live exactly-once application by restarting its instances one after another.

Three instances with default client ids, sessions of three minutes and heartbeats of 3 s, under load. Bellwether has the
default settings but for more time to find a member id and declares `exactly_once_v2`, so it may remove no live member.
The instance whose thread leads is restarted first.
"""

import os
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import bellwether_options, create_topics, write_topology
from tests.kit.membership import BrokerTable

INSTANCES = ("app-1", "app-2", "app-3")
PARTITIONS, KEYS, RECORDS, PER_SECOND = 4, 300, 3_000, 200
SESSION_MS, HEARTBEAT_MS = 180_000, 3_000  # a busy machine takes 40 s to start a process
QUIET_S = 3.0
STALL_MS = 500
STEPS = ("ended", "launched", "state")
NOT_LED = "not taken over: under exactly_once_v2"
PATIENT_ADOPTION = {"session_timeout_ms": 10_000, "roll_ms_max": 6_000}
TABLE = BrokerTable()  # that of twelve members at most


@dataclass(slots=True)
class Adoption:
    """What was seen. `leaders` are the ids, by generation, of the members that led after the first restart, without
    the first leader's; `transcript` has what happened, with the seconds since the first restart; `pauses_s` the longest
    time in which a task processed nothing, by restart."""

    restarts: int = 0
    leaders: list[str] = field(default_factory=list)
    counted: int = 0
    pauses_s: list[float] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)
    bellwether: list[str] = field(default_factory=list)

    @property
    def adopted(self) -> bool:
        return bool(self.leaders) and self.leaders[-1].startswith(INSTANCE)

    @property
    def avoidable(self) -> list[str]:
        """The members that led although a new id of Bellwether's could have sorted before theirs: one in sixteen ids
        is in the first bucket of the broker's table, which no new id sorts before."""
        others = [leader for leader in self.leaders if not leader.startswith(INSTANCE)]
        return [leader for leader in others if not TABLE.unavoidable([leader])]


class Stage:
    """An application with Bellwether beside it, which does not lead it yet."""

    def __init__(self, cluster: KafkaCluster, stack: ExitStack) -> None:
        name = f"adopted-{int(time.time())}"
        self.cluster, self.group = cluster, name
        self.application = Application(
            name,
            (f"{name}-in",),
            f"{name}-out",
            PARTITIONS,
            guarantee="exactly_once_v2",
            standbys=1,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            acceptable_recovery_lag=1_000_000,
            commit_interval_ms=100,
        )
        create_topics(cluster, self.application)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bellwether-adopted-")))
        options = bellwether_options(self.application, write_topology(self.application, folder), "kafka")
        self.bellwether = Bellwether(cluster, [name], options=options | PATIENT_ADOPTION)
        stack.callback(lambda: self.bellwether.__exit__(None, None, None))
        self.app = stack.enter_context(StreamsApp(cluster, self.application))
        self.load = stack.enter_context(Load(cluster, self.application.topics[0], KEYS))
        self.load.produce(RECORDS)
        for instance in INSTANCES:
            self.app.add(instance, settings=DEFAULT_CLIENT_ID)
        self.app.wait_settled(quiet_s=QUIET_S)
        self.app.wait_counted(self.load.expected)

    @property
    def leader(self) -> str:
        """The instance whose thread led the last rebalance, INSTANCE for Bellwether."""
        member = last_rebalance(self.cluster, self.group).leader
        if member.startswith(INSTANCE):
            return INSTANCE
        for name, instance in self.app.instances.items():
            if member.startswith(f"{name}-") or instance.process_id(self.group) in member:
                return name
        raise AssertionError(f"{member} is of no instance")

    def watch(self) -> None:
        """Starts Bellwether, which sees the group at rest."""
        self.bellwether.start(wait=False)
        wait_until(lambda: NOT_LED in self.bellwether.text(), 60, self.bellwether.tail)

    def restart(self, name: str) -> None:
        instance = self.app.instances[name]
        os.kill(instance.pid, signal.SIGTERM)
        wait_until(lambda: not instance.alive, 60, self.app.send)
        instance.stop()
        self.app.start(name, settings=DEFAULT_CLIENT_ID)
        self.app.wait_settled(quiet_s=QUIET_S)


def adopt(cluster: KafkaCluster, *, cycles: int = 1) -> Adoption:
    """Restarts each instance up to `cycles` times, until Bellwether leads. Raises AssertionError where records are
    counted wrongly."""
    adoption = Adoption()
    with ExitStack() as stack:
        stage = Stage(cluster, stack)
        stage.watch()
        stage.load.start(PER_SECOND)
        time.sleep(2)
        began, last = time.time(), last_rebalance(cluster, stage.group)
        generation = last.generation

        def echo_at(at: float, text: str) -> None:
            adoption.transcript.append(f"{at - began:6.1f} s  {text.strip()}")

        def echo(text: str) -> None:
            echo_at(time.time(), text)

        first = stage.leader
        echo(f"a thread of {first} leads, generation {generation}")
        order = sorted(INSTANCES, key=lambda name: name != first)
        for name in order * cycles:
            restarted_ms = int(time.time() * 1000)
            echo(f"{name} is restarted")
            stage.restart(name)
            adoption.restarts += 1
            ended_ms = int(time.time() * 1000)
            pauses = stage.app.timeline().pauses(stage.application.tasks, restarted_ms, ended_ms, STALL_MS)
            longest = max((end - begin for paused in pauses.values() for begin, end in paused), default=0) / 1000
            adoption.pauses_s.append(longest)
            for seen in stage.app.timeline().ordered:
                if seen.t_ms >= restarted_ms and (
                    (seen.instance == name and seen.event in STEPS) or seen.event == "assigned"
                ):
                    echo_at(seen.t_ms / 1000, f"{seen.instance} {seen.event} {seen.message.get('state', '')}")
            for ended in rebalances(cluster, stage.group, generation):
                generation = ended.generation
                if ended.leader != last.leader:
                    adoption.leaders.append(ended.leader)
                echo(f"generation {ended.generation}: {ended.leader} leads {ended.members} members")
            echo(f"{name} is back; the longest pause of a task was {longest:.1f} s; {stage.leader} leads")
            if adoption.adopted:
                break
        stage.load.stop()
        adoption.counted = stage.app.wait_counted(stage.load.expected, exactly_once=True).seen
        adoption.overlaps = stage.app.timeline().overlaps()
        echo(f"{adoption.counted} records were counted, each once")
        adoption.bellwether = [
            f"{entry.get('timestamp', '')} {entry['what']}: {entry['reason']}"
            for entry in stage.bellwether.log()
            if entry.get("event") in ("membership", "ghosts")
        ]
    return adoption
