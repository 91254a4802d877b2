"""`python -m tests.measure.thirty_groups`: thirty live groups, some of them broken on purpose, seen from nothing in two
commands; what `bellwether assess` says of each that is broken is printed next to what was broken.

Brokers, consumers of several languages and a Streams application are real. Ends with 1 if something broken is not
named, or if a group that is not broken is named for anything.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from tests.interop.support.bellwether import COMMAND, clean_environment, run_to_end
from tests.interop.support.brokers import LOOPBACK, KafkaCluster, PortLease
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.streams_app import Application, StreamsApp
from tests.interop.support.streams_stage import create_topics

GROUPS = 30
HEALTHY_KINDS = ("java", "confluent", "kafka-python", "aiokafka", "franz-go", "sarama")
RACKS = ("az1", "az2", "az3")
RECORDS_PER_S = 5
STORM_PAUSE_S = 8.0
MINUTES = 8.0  # a member counts as stalled after six
DEFAULT_SESSION_MS = 45_000
KILLED_SESSION_MS = 30_000
NO_RACKS = "No member names a rack."  # clients that have no such setting; what crosses racks is unknown then


@dataclass(frozen=True, slots=True)
class Broken:
    """`named` is what the finding that says so is about."""

    group: str
    how: str
    named: str


BROKEN = (
    Broken("orders-stalled", "its members heartbeat and read, and commit nothing more", "lag"),
    Broken("audit-nobody", "its members have stopped, and records come in", "lag"),
    Broken("stock-ghosts", "a Streams instance is killed and started again, with a session of 45 s", "ghosts"),
    Broken(
        "search-timeouts", "members are killed, and others join before the session of 30 s ends", "session timeouts"
    ),
    Broken("invoices-skewed", "range over four topics of three partitions, and two members", "skew"),
    Broken("clicks-cross-rack", "range, where replicas are in three racks and members in two", "cross rack"),
    Broken("sessions-storm", "a member joins, leaves and joins again", "rebalance storm"),
    Broken("mail-converted", "its members use the consumer protocol", "leading"),
)
HEALTHY = tuple(f"team-{row % 4 + 1}-{kind}-{row}" for row, kind in enumerate(HEALTHY_KINDS * 4))[
    : GROUPS - len(BROKEN)
]


class Fleet:
    """The groups, from their start to their end."""

    def __init__(self, cluster: KafkaCluster, flock: Flock) -> None:
        self._cluster, self._flock = cluster, flock
        self._topics: list[str] = []
        self._over = threading.Event()

    def _topic(self, name: str, partitions: int, rf: int = 3) -> str:
        self._cluster.create_topic(name, partitions, rf=rf)
        self._topics.append(name)
        return name

    def start(self) -> None:
        for row, group in enumerate(HEALTHY):
            topic, kind = self._topic(group, 4), group.rsplit("-", 1)[0].split("-", 2)[2]
            for member in range(2):
                self._flock.member(kind, group, [topic], rack=RACKS[(row + member) % 3])
        stalled, nobody = self._topic("orders-stalled", 4), self._topic("audit-nobody", 4)
        begun = [TopicPartition(stalled, partition, 0) for partition in range(4)]
        asked = self._cluster.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(stalled, begun)])
        asked[stalled].result(30)
        for rack in RACKS[:2]:
            never = {"property.enable.auto.commit": "false"}
            self._flock.member("confluent", "orders-stalled", [stalled], rack=rack, more=never)
        self._stopped = self._flock.member("confluent", "audit-nobody", [nobody], rack="az1")
        skewed = [self._topic(f"invoices-{month}", 3) for month in range(1, 5)]
        for rack in RACKS[:2]:
            self._flock.member("confluent", "invoices-skewed", skewed, rack=rack)
        crossing = self._topic("clicks-cross-rack", 12, rf=1)
        for rack in RACKS[:2]:
            self._flock.member("java", "clicks-cross-rack", [crossing], rack=rack)
        converted = self._topic("mail-converted", 4)
        self._flock.member("java", "mail-converted", [converted], rack="az1", more={"protocol": "consumer"})
        for group in ("sessions-storm", "search-timeouts"):
            self._flock.member("confluent", group, [self._topic(group, 4)], rack="az1")

    def seed(self) -> None:
        """Every group has committed something, and one is left by its members."""
        wait_until(lambda: self._stopped.count("assigned") > 0, 120, lambda: "audit-nobody has nothing")
        time.sleep(5)
        self._stopped.stop()

    def produce(self) -> None:
        """Until `end`: some records a second to each topic."""
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        while not self._over.wait(1.0 / RECORDS_PER_S):
            for topic in self._topics:
                producer.produce(topic, os.urandom(64))
            producer.poll(0)
        producer.flush(10)

    def storm(self) -> None:
        """Until `end`: a member comes and goes, another one is killed."""
        while not self._over.wait(STORM_PAUSE_S):
            guest = self._flock.member("confluent", "sessions-storm", ["sessions-storm"], rack="az2")
            victim = self._flock.member(
                "confluent", "search-timeouts", ["search-timeouts"], own_process=True, session_ms=KILLED_SESSION_MS
            )
            self._over.wait(STORM_PAUSE_S)
            guest.stop()
            self._over.wait(STORM_PAUSE_S)
            victim.kill()

    def end(self) -> None:
        self._over.set()


@contextmanager
def ghosted(cluster: KafkaCluster) -> Iterator[threading.Event]:
    """An application whose second instance is killed and started again once the event is set."""
    application = Application(
        "stock-ghosts",
        ("stock-in",),
        "stock-out",
        3,
        settings={"consumer.session.timeout.ms": str(DEFAULT_SESSION_MS), "client.id": ""},
    )
    create_topics(cluster, application)
    kill, over = threading.Event(), threading.Event()
    with StreamsApp(cluster, application) as app:
        app.add("one", "az1", settings={"client.id": ""})
        app.add("two", "az2", settings={"client.id": ""})
        app.wait_settled()

        def restart() -> None:
            kill.wait()
            while not over.is_set():
                app.instances["two"].kill()
                app.start("two", settings={"client.id": ""})
                over.wait(3 * DEFAULT_SESSION_MS / 1000)

        thread = threading.Thread(target=restart, daemon=True)
        thread.start()
        try:
            yield kill
        finally:
            over.set()
            kill.set()
            thread.join(60)


@contextmanager
def observed(bootstrap: str, address: str, folder: Path) -> Iterator[None]:
    """`bellwether run --group '*'` with two variables in the environment, and the default interval."""
    reported = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": bootstrap, "BELLWETHER_HTTP_ADDRESS": address}
    with (folder / "run.log").open("w") as log:
        run = subprocess.Popen(
            [*COMMAND, "run", "--group", "*"], cwd=folder, env=clean_environment(reported), stdout=log, stderr=log
        )
        try:
            yield
        finally:
            run.terminate()
            run.wait(60)


def overview(address: str) -> Sequence[Mapping[str, Any]]:
    with urllib.request.urlopen(f"http://{address}/api/overview", timeout=10) as answer:
        found: Sequence[Mapping[str, Any]] = json.loads(answer.read())
    return found


def seen_after(address: str, limit_s: float = 120.0) -> float:
    """Seconds until every group is on the page."""
    began = time.monotonic()

    def all_of_them() -> bool:
        try:
            return len(overview(address)) >= GROUPS
        except OSError:
            return False

    wait_until(all_of_them, limit_s, lambda: "not every group is on the page")
    return time.monotonic() - began


def rows(reported: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """(a table of what was broken and what is said of it, what is wrong with that)."""
    message = {group["group"]: {finding["about"]: finding for finding in group["findings"]} for group in reported}
    lines, wrong = ["| group | what was broken | what `assess` says |", "|---|---|---|"], []
    for broken in BROKEN:
        finding = message.get(broken.group, {}).get(broken.named)
        if finding is None:
            wrong.append(f"{broken.group}: {broken.named} is not named, but {sorted(message.get(broken.group, {}))}")
        words = finding["message"] if finding is not None else "**nothing of it**"
        lines.append(f"| `{broken.group}` | {broken.how} | {words} |")
    named = ((group, _against(message.get(group))) for group in HEALTHY)
    wrong += [f"{group} is in order, and {', '.join(found)} is named" for group, found in named if found]
    return lines, wrong


def _against(found: Mapping[str, Mapping[str, Any]] | None) -> list[str]:
    """What is said against a group that is in order."""
    if found is None:
        return ["nothing: it was not seen"]
    return sorted(about for about, finding in found.items() if finding["message"] != NO_RACKS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.thirty_groups", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="that groups are looked at (%(default)s)")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bellwether-thirty-")))
        cluster = stack.enter_context(KafkaCluster(nodes=3))
        flock = stack.enter_context(Flock(cluster.bootstrap))
        fleet = Fleet(cluster, flock)
        fleet.start()
        stack.callback(fleet.end)
        threading.Thread(target=fleet.produce, daemon=True).start()
        fleet.seed()
        kill = stack.enter_context(ghosted(cluster))
        threading.Thread(target=fleet.storm, daemon=True).start()
        lease = PortLease()
        stack.callback(lease.release)
        address = f"{LOOPBACK}:{lease.port}"
        stack.enter_context(observed(cluster.bootstrap, address, folder))
        print(f"{GROUPS} groups on the page {seen_after(address):.1f} s after the start", flush=True)
        kill.set()
        asked = ["assess", "--bootstrap", cluster.bootstrap, "--for", f"{60 * options.minutes:.0f}", "-o", "json"]
        ended = run_to_end(asked, limit_s=60 * options.minutes + 300)
        if ended.code != 0:
            print(ended.text, file=sys.stderr)
            return 1
        lines, wrong = rows(json.loads(ended.stdout))
        print("\n".join(lines), flush=True)
        first = [group["group"] for group in overview(address)][: len(BROKEN) + 2]
        print(f"first on the page: {', '.join(first)}")
        print("\n".join(wrong) or "each broken group is named for what is broken, and no other group is", flush=True)
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
