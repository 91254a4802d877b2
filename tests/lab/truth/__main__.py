"""`python -m tests.lab.truth`: thirty groups on three real brokers, one of which is killed, started and paused.

Each second what `/api` and `/metrics` of a `bellwether run` say, every ten seconds what commands say, is compared with
what a second reader of the brokers saw (`reader.py`). Ends with 1 if anything that was said was wrong; what is said to
be unknown is not wrong.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.interop.support.bellwether import COMMAND, clean_environment, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.lab.truth.claims import Claim, Judge, of_document, of_listed, of_metrics, of_overview, parsed
from tests.lab.truth.reader import Truth

KINDS = ("confluent", "java", "kafka-python", "confluent", "aiokafka")
LED = 4
OBSERVED = 23
LEFT = "audit-left"  # its members have stopped, and records come in
LONELY = "stock-one-replica"  # its topic is on the broker in trouble alone
GROUPS = (*(f"lead-{i}" for i in range(LED)), *(f"team-{i}" for i in range(OBSERVED)), LEFT, LONELY, "team-two-topics")
VICTIM = 2
PARTITIONS = 4
RECORDS_PER_S = 20  # of all topics together
COMMANDS_S = 10.0
OPENED = 6  # pages of groups that are read each second
FATES = ("right", "unknown", "not decided", "wrong")
Task = Callable[[], None]


class Watch:
    """Collects what is said, until `end`."""

    def __init__(self, address: str, bootstrap: str, folder: Path) -> None:
        self.claims: list[Claim] = []
        self.troubles: Counter[str] = Counter()
        self._address, self._bootstrap, self._folder = address, bootstrap, folder
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._each, args=(every_s, work), daemon=True)
            for every_s, work in ((1.0, self._http), (COMMANDS_S, self._commands))
        ]
        self._turn = 0

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def _each(self, every_s: float, work: Task) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            work()
            self._over.wait(max(0.0, every_s - (time.monotonic() - began)))

    def _http(self) -> None:
        for path, read in (("/api/overview", self._overview), ("/metrics", self._metrics)):
            self._get(path, read)
        for i in range(OPENED):
            group = GROUPS[(self._turn * OPENED + i) % len(GROUPS)]
            self._get(f"/api/groups/{group}", self._page)
        self._turn += 1

    def _get(self, path: str, read: Callable[[str], Iterator[Claim]]) -> None:
        try:
            with urllib.request.urlopen(f"http://{self._address}{path}", timeout=10) as answer:
                text = answer.read().decode()
        except OSError as error:
            self.troubles[f"{path.rpartition('/')[0]}: {error}"] += 1
            return
        self.claims += read(text)

    def _overview(self, text: str) -> Iterator[Claim]:
        return of_overview("/api/overview", parsed(text), GROUPS, time.time())

    def _metrics(self, text: str) -> Iterator[Claim]:
        return of_metrics(text, GROUPS, time.time())

    def _page(self, text: str) -> Iterator[Claim]:
        document = parsed(text)
        if "observed" in document:
            yield from of_document("/api/groups", document["observed"], time.time())

    def _commands(self) -> None:
        group = GROUPS[self._turn % len(GROUPS)]
        listed, described = self._run("groups"), self._run("describe", group)
        rows, document = parsed(listed.stdout), parsed(described.stdout)
        if rows is None:
            self.troubles[f"groups: {listed.stderr.strip()[-160:]}"] += 1
        else:
            self.claims += of_listed("groups", rows, listed.stderr, GROUPS, time.time())
        if document is None:
            self.troubles[f"describe: {described.stderr.strip()[-160:]}"] += 1
        else:
            self.claims += of_document("describe", document, time.time())
        if "Traceback" in listed.stderr + described.stderr:
            self.troubles["a traceback"] += 1

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments, "--bootstrap", self._bootstrap, "-o", "json"]
        return subprocess.run(
            command, cwd=self._folder, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
        )


@contextmanager
def running(cluster: KafkaCluster, address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`bellwether run`, which leads some groups and observes all others."""
    led = [{"name": group, "mode": "lead"} for group in GROUPS[:LED]]
    text = toml(
        {"bootstrap.servers": cluster.bootstrap}, [*led, {"match": "*"}], http_address=address, instance_id="bellwether"
    )
    (folder / "bellwether.toml").write_text(text)
    with (folder / "run.log").open("w") as log:
        command = [*COMMAND, "run", "--config", "bellwether.toml"]
        run = subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=log, stderr=log)
        try:
            yield run
        finally:
            run.terminate()
            run.wait(60)


def produce(bootstrap: str, topics: Sequence[str], over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 120_000})
    while not over.wait(1.0 / RECORDS_PER_S):
        for topic in topics:
            producer.produce(topic, os.urandom(32))
        producer.poll(0)


def populate(cluster: KafkaCluster, flock: Flock) -> dict[str, list[str]]:
    """Makes the groups; returns the topics that each reads."""
    topics_of = {group: [group] for group in GROUPS}
    topics_of["team-two-topics"] = ["team-two-topics", "team-0"]
    for group in GROUPS:
        if group == LONELY:
            cluster.create_topic(group, assignment=[[VICTIM], [1], [3], [VICTIM]])
        else:
            cluster.create_topic(group, PARTITIONS, rf=3)
    for row, group in enumerate(GROUPS):
        kind = "confluent" if group in (LEFT, LONELY) else KINDS[row % len(KINDS)]
        for member in range(1 if group == LEFT else 2):
            flock.member(kind, group, topics_of[group], rack=f"az{member + 1}", session_ms=20_000)
    return topics_of


def play(cluster: KafkaCluster, echo: Callable[[str], None], minute_s: float) -> None:
    """One broker is killed, started again, and paused."""
    time.sleep(minute_s / 2)
    echo("killed")
    cluster.kill_node(VICTIM)
    time.sleep(minute_s)
    echo("started")
    cluster.start_node(VICTIM)
    time.sleep(minute_s)
    pid = cluster.pids()[VICTIM - 1]
    echo("paused")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(minute_s)
    finally:
        os.kill(pid, signal.SIGCONT)
    echo("goes on")
    time.sleep(minute_s)


def judged(claims: Sequence[Claim], judge: Judge) -> list[tuple[Claim, str]]:
    """Those that are wrong, with why; prints how many of each kind were right, not decided, and wrong."""
    tally: Counter[tuple[str, str]] = Counter()
    wrong = []
    for claim in claims:
        why = judge.wrong(claim)
        decided = {None: "not decided", "": "right"}.get(why, "wrong")
        outcome = "unknown" if claim.what == "unknown" else decided
        tally[claim.where, outcome] += 1
        if why:
            wrong.append((claim, why))
    for where in sorted({where for where, _ in tally}):
        counts = ", ".join(f"{tally[where, outcome]:,} {outcome}" for outcome in FATES)
        print(f"{where:<16} {counts}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.truth", description=__doc__)
    parser.add_argument("--minute", type=float, default=60.0, metavar="SECONDS", help="that a trouble lasts")
    options = parser.parse_args()
    over, began = threading.Event(), time.time()

    def echo(what: str) -> None:
        print(f"{time.time():.0f} ({time.time() - began:.0f} s): {what}", flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bellwether-truth-")))
        cluster = stack.enter_context(KafkaCluster(nodes=3))
        flock = stack.enter_context(Flock(cluster.bootstrap))
        topics_of = populate(cluster, flock)
        echo("members have started")
        topics = sorted({topic for topics in topics_of.values() for topic in topics})
        stack.callback(over.set)
        threading.Thread(target=produce, args=(cluster.bootstrap, topics, over), daemon=True).start()
        left = flock.live(LEFT)
        wait_until(lambda: all(m.count("assigned") for m in flock.members), 180, lambda: "members have nothing")
        time.sleep(5)
        for member in left:
            member.stop()
        truth = Truth(cluster.bootstrap, topics_of)
        truth.start()
        stack.callback(truth.end)
        lease = PortLease()
        stack.callback(lease.release)
        address = f"{LOOPBACK}:{lease.port}"
        run = stack.enter_context(running(cluster, address, folder))
        echo("Bellwether has started")
        time.sleep(40)
        watch = Watch(address, cluster.bootstrap, folder)
        watch.begin()
        try:
            play(cluster, echo, options.minute)
        finally:
            watch.end()
        if run.poll() is not None:
            print(f"Bellwether ended: {(folder / 'run.log').read_text()[-2000:]}")
            return 1
        time.sleep(5)
        truth.end()
        partitions = {g: [(t, p) for t in topics_of[g] for p in range(PARTITIONS)] for g in GROUPS}
        samples = {group: truth.samples(group) for group in GROUPS}
        counts = sorted(map(len, samples.values()))
        print(f"samples of the truth: {counts[0]} to {counts[-1]} of a group")
        wrong = judged(watch.claims, Judge(samples, partitions))
        for claim, why in wrong[:200]:
            print(f"{str(claim)[:200]}, and {why}")
        print("\n".join(f"{count} x {trouble}" for trouble, count in watch.troubles.items()))
        print(f"wrong statements: {len(wrong)} of {len(watch.claims):,}")
        return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
