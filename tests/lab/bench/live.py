"""`make bench-live`: what leading costs on a real broker.

* share: from JoinGroup answered to SyncGroup received, by the broker's log, under Bellwether and under a Java leader of
  the same group, while a member comes and goes;
* groups: many groups led by one process, with `--observed` others beside them: how punctual its heartbeats are,
  memory and CPU, at rest and while the groups come;
* applications: Streams applications led by one process: its memory and CPU at rest;
* start: from the start of the process to its first JoinGroup at the broker: compiled as an installation leaves it, with
  no file of it in memory and with all; and without compiled Python files, which no installation does.

The members are sockets and threads of this process: they cost little, and the broker's log is the only clock.
"""

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.interop.support.bellwether import COMMAND, INSTANCE, Bellwether, cpu_s, resident_mb
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.raw import RawError, RawMember
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, settings_of
from tests.lab.bench.report import Figures, figure, percentiles, print_and_save

TOPIC, PARTITIONS = "orders", 300
PROTOCOL = "cooperative-sticky"
SIZES = (3, 30, 300)
TURNS = 20
GROUPS, APPLICATIONS = 200, 5
HEARTBEAT_MS = 1_000
QUIET_S = 60.0
PAUSE_S = 0.5  # between a member's heartbeats
REST_S = 10.0  # the same where only Bellwether's count
WAVE = 50
SETTLE_S = 120.0
STARTS = 5
DAY_MS = 24 * 3_600_000
REQUESTS_LOGGED = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
STABLE = re.compile(r"Stabilized group (?P<group>\S+) generation (?P<generation>\d+) with (?P<members>\d+) members")
ASSIGNED = re.compile(
    r"Assignment received from leader \S+ for group (?P<group>\S+) for generation (?P<generation>\d+)"
)
TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3}) ")
JOINED = re.compile(rf"Static member with groupInstanceId={INSTANCE} .* joins group (?P<group>\S+)")
HEARTBEAT = re.compile(
    r'"requestApiKeyName":"HEARTBEAT".*?"groupId":"(?P<group>[^"]+)".*?"groupInstanceId":"' + INSTANCE
)


class SelfAssigned(RawMember):
    """Gives itself all partitions where it leads."""

    def plan(self) -> dict[str, bytes]:
        everything = tuple(TopicPartition(TOPIC, partition) for partition in range(PARTITIONS))
        return {self.member_id: ConsumerProtocolAssignment(version=1, partitions=everything).encode()}


class Follower(threading.Thread):
    """A member of a group, which asks every `pause_s` whether the group rebalances."""

    def __init__(self, cluster: KafkaCluster, group: str, pause_s: float) -> None:
        super().__init__(name=f"follower of {group}", daemon=True)
        metadata = ConsumerProtocolSubscription(version=1, topics=(TOPIC,)).encode()
        self._member = SelfAssigned(cluster.bootstrap, group, [(PROTOCOL, metadata)], session_ms=30_000)
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.settled = -1

    def run(self) -> None:
        with self._member as member:
            while not self._stopping.is_set():
                if self.settled < 0 or not self._is_in_group():
                    member.rebalance(SETTLE_S)
                    self.settled = member.generation
                self._stopping.wait(self._pause_s)

    def stop(self) -> None:
        self._stopping.set()

    def _is_in_group(self) -> bool:
        try:
            return self._member.heartbeat()
        except RawError:
            return False


@contextmanager
def followers(cluster: KafkaCluster, groups: Sequence[str], pause_s: float) -> Iterator[list[Follower]]:
    """One follower per name, all in one generation per group; they leave at the end."""
    made = [Follower(cluster, group, pause_s) for group in groups]
    try:
        for follower in made:
            follower.start()
        wait_until(lambda: together(made, groups), SETTLE_S, lambda: "the followers do not settle")
        yield made
    finally:
        for follower in made:
            follower.stop()
        for follower in made:
            follower.join(SETTLE_S)


def together(made: Sequence[Follower], groups: Sequence[str]) -> bool:
    """Whether the followers of each group are in one generation."""
    seen: dict[str, set[int]] = defaultdict(set)
    for follower, group in zip(made, groups, strict=True):
        seen[group].add(follower.settled)
    return all(len(generations) == 1 and min(generations) > 0 for generations in seen.values())


def share(cluster: KafkaCluster, size: int, leader: str) -> Figures:
    """The leader's share of rebalances in milliseconds, in a group with `size` members besides it; one more comes and
    goes again and again."""
    group = f"share-{leader}-{size}"
    parts = ""
    with ExitStack() as stack:
        if leader == "java":
            flock = stack.enter_context(Flock(cluster.bootstrap))
            java = flock.member("java", group, [TOPIC], [PROTOCOL])
            wait_until(lambda: len(java.owned()) == PARTITIONS, SETTLE_S, lambda: "the Java leader has not settled")
        else:
            lead = stack.enter_context(Bellwether(cluster, [group]))
        flock_of = stack.enter_context(followers(cluster, [group] * size, PAUSE_S))
        for _ in range(TURNS):
            before = flock_of[0].settled
            with followers(cluster, [group], PAUSE_S):
                _wait_after(flock_of, before)
                before = flock_of[0].settled
            _wait_after(flock_of, before)
        if leader != "java":
            parts = "; " + ", ".join(_logged_part(lead, group, what) for what in ("metadata_ms", "plan_ms"))
    times = sorted(shares(cluster, group, size))
    name = "Java" if leader == "java" else "Bellwether"
    row = f"leader's share, {name}, {size} members"
    return figure(row, f"{percentiles(times)} ms, {len(times)} rebalances{parts}")


def _logged_part(lead: Bellwether, group: str, what: str) -> str:
    return f"{what} {percentiles(sorted(line[what] for line in lead.log('decision', group=group)))}"


def _wait_after(made: Sequence[Follower], generation: int) -> None:
    wait_until(
        lambda: len({f.settled for f in made}) == 1 and made[0].settled > generation,
        SETTLE_S,
        lambda: f"no rebalance after generation {generation}",
    )


def shares(cluster: KafkaCluster, group: str, least_members: int) -> list[int]:
    """Returns the milliseconds from the answers to JoinGroup to the plan, per rebalance of at least so many members."""
    began: dict[str, int] = {}
    times = []
    for at_ms, line in logged(cluster):
        if (hit := STABLE.search(line)) and hit["group"] == group and int(hit["members"]) >= least_members:
            began[hit["generation"]] = at_ms
        elif (hit := ASSIGNED.search(line)) and hit["group"] == group and hit["generation"] in began:
            times.append(at_ms - began.pop(hit["generation"]))
    return times


def groups(cluster: KafkaCluster, count: int, heartbeat_ms: int, observed: int) -> Figures:
    """One process leads `count` groups with one member each and observes `observed` more, which come in waves, as
    deployments do; a quiet minute. The members' heartbeats are as rare as their sessions allow, and no watchdog runs in
    the process: what is measured is Bellwether."""
    names = [f"many-{n:03d}" for n in range(count)]
    others = [f"seen-{n:03d}" for n in range(observed)]
    with Bellwether(cluster, names[:1], command=COMMAND) as of_one_group:
        alone_mb = resident_mb(of_one_group.pid)
    with ExitStack() as stack:
        for begin in range(0, observed, WAVE):
            stack.enter_context(followers(cluster, others[begin : begin + WAVE], REST_S))
        options, seen = {"heartbeat_interval_ms": heartbeat_ms}, [{"name": name, "mode": "observe"} for name in others]
        lead = stack.enter_context(Bellwether(cluster, names, command=COMMAND, options=options, beside=seen))
        began, cpu = time.monotonic(), cpu_s(lead.pid)
        for begin in range(0, count, WAVE):
            stack.enter_context(followers(cluster, names[begin : begin + WAVE], REST_S))
        share_while_coming = (cpu_s(lead.pid) - cpu) / (time.monotonic() - began)
        time.sleep(REST_S)
        from_ms = _now_ms()
        share_of_core = _at_rest(lead)
        until_ms = _now_ms()
        memory, memory_most = resident_mb(lead.pid), resident_mb(lead.pid, most=True)
    heartbeats: dict[str, list[int]] = defaultdict(list)
    for at_ms, line in logged(cluster):
        if from_ms <= at_ms <= until_ms and (hit := HEARTBEAT.search(line)):
            heartbeats[hit["group"]].append(at_ms)
    gaps = sorted(b - a for times in heartbeats.values() for a, b in pairwise(times))
    assert len(heartbeats) == count, f"the broker logged heartbeats of {len(heartbeats)} groups"
    return figure(
        f"{count} groups led by one process, {observed} observed, {QUIET_S:.0f} quiet seconds",
        f"between heartbeats ({heartbeat_ms:,} ms wanted) {percentiles(gaps)} ms; {memory:.0f} MB resident,"
        f" {(memory - alone_mb) * 1024 / count:.0f} KB a group;"
        f" {share_of_core:.1%} of a core, {share_of_core / count:.3%} a group;"
        f" at most {memory_most:.0f} MB, {share_while_coming:.1%} of a core while the groups come",
    )


def applications(cluster: KafkaCluster, count: int) -> Figures:
    """One process leads so many Streams applications with an instance of two threads each, which process nothing."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bellwether-applications-")))
        apps = [application(cluster, f"led-{n}", threads=2, standbys=1) for n in range(count)]
        own = {app.application_id: settings_of(app, folder) for app in apps}
        lead = stack.enter_context(Bellwether(cluster, [*own], command=COMMAND, own=own))
        for running in [stack.enter_context(StreamsApp(cluster, app)) for app in apps]:
            running.add("one")
            running.wait_settled()
        for app in apps:
            assert last_rebalance(cluster, app.application_id).leader.startswith(INSTANCE), app.application_id
        time.sleep(REST_S)
        share_of_core, memory = _at_rest(lead), resident_mb(lead.pid)
    row = f"{count} Streams applications led by one process, {QUIET_S:.0f} quiet seconds"
    return figure(row, f"{memory:.0f} MB resident, {share_of_core:.1%} of a core")


def _at_rest(lead: Bellwether) -> float:
    """The share of a core that a process takes for QUIET_S."""
    began, cpu = time.monotonic(), cpu_s(lead.pid)
    time.sleep(QUIET_S)
    return (cpu_s(lead.pid) - cpu) / (time.monotonic() - began)


def start(cluster: KafkaCluster) -> Iterator[Figures]:
    """Seconds to the first JoinGroup: from disk, from memory, and without compiled files of any package."""
    with tempfile.TemporaryDirectory(prefix="bellwether-cold-") as compiled:
        with environment(PYTHONPYCACHEPREFIX=compiled, PYTHONDONTWRITEBYTECODE=""):
            never = _first_join(cluster, "start-never-compiled")
        cold, warm = [], []
        for n in range(STARTS):
            forget_files()
            cold.append(_first_join(cluster, f"start-cold-{n}"))
            warm.append(_first_join(cluster, f"start-warm-{n}"))
    for name, times in (("cold, installed, nothing in memory", cold), ("warm", warm)):
        times.sort()
        message = f"{times[0] / 1000:.2f} s, median {times[len(times) // 2] / 1000:.2f} s"
        yield figure(f"start to first JoinGroup, {name}", message)
    yield figure("start to first JoinGroup, never compiled", f"{never / 1000:.2f} s")


def forget_files() -> None:
    """Drops the files of Python, its libraries and Bellwether from the page cache, unless another process runs them."""
    for folder in {*sys.path, sys.prefix, str(Path(os.__file__).parent)} - {""}:
        for path in Path(folder).rglob("*"):
            if path.suffix in {".pyc", ".py", ".so", ".json", ".txt"} and path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _first_join(cluster: KafkaCluster, group: str) -> int:
    lead = Bellwether(cluster, [group])
    began_ms = _now_ms()
    with lead:
        pass
    joins = [at_ms for at_ms, line in logged(cluster) if (hit := JOINED.search(line)) and hit["group"] == group]
    return (joins[0] - began_ms) % DAY_MS


def logged(cluster: KafkaCluster) -> Iterator[tuple[int, str]]:
    """The brokers' log lines that have a time: milliseconds of the day, line."""
    for path in cluster.log_paths():
        with path.open(errors="replace") as log:
            for line in log:
                hit = TIME.match(line)
                if hit:
                    yield _day_ms(*map(int, hit.groups())), line


def _now_ms() -> int:
    now = datetime.now(UTC).astimezone()
    return _day_ms(now.hour, now.minute, now.second, now.microsecond // 1000)


def _day_ms(hours: int, minutes: int, seconds: int, milliseconds: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.bench.live", description=__doc__)
    parser.add_argument("--only", choices=("share", "groups", "applications", "start"))
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--observed", type=int, default=0)
    parser.add_argument("--applications", type=int, default=APPLICATIONS)
    parser.add_argument("--heartbeat-ms", type=int, default=HEARTBEAT_MS)
    options = parser.parse_args()
    parts: dict[str, Callable[[KafkaCluster], Iterator[Figures]]] = {
        "start": start,
        "share": lambda cluster: (share(cluster, size, leader) for size in SIZES for leader in ("java", "bellwether")),
        "groups": lambda cluster: iter([groups(cluster, options.groups, options.heartbeat_ms, options.observed)]),
        "applications": lambda cluster: iter([applications(cluster, options.applications)]),
    }
    for name in [options.only] if options.only else parts:
        logged = {"JAVA_TOOL_OPTIONS": REQUESTS_LOGGED} if name == "groups" else {}
        broker = KafkaCluster(nodes=1, heap_mb=512, initial_rebalance_delay_ms=0)
        with environment(**logged), broker as cluster:
            cluster.create_topic(TOPIC, PARTITIONS)
            for row in parts[name](cluster):
                print_and_save(row)
    return 0


@contextmanager
def environment(**changes: str) -> Iterator[None]:
    """Environment variables for the processes that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    sys.exit(main())
