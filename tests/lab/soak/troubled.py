"""`make soak-troubled HOURS=1`: members that do badly under Bellwether's lead for reasons of their own.

On a real broker, an application has a slow instance, one that is paused, one that fails of a record and is started
again and again, and one whose state is wiped; its load comes and goes. Another application commits rarely. Beside them
a group of plain consumers, one of each kind. Nothing of this is the plan's fault, so Bellwether must lead all the time.
Exit code 1 if it handed a group back, or left it.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, settings_of
from tests.interop.support.streams_load import Load

APPLICATION, RARE, CONSUMERS = "troubled", "troubled-rare", "troubled-consumers"
STATE_RECORDS = 150_000  # what a wiped instance restores
PER_SECOND = 40
SLOW_MS = 20  # for each record
RARE_COMMIT_MS = 150_000
HANDED_BACK = "handed back"
PAUSE_S = (10.0, 40.0)  # between two troubles
FAILURES = 4  # in a row
CONSUMER_KINDS = ("slow", "idle", "paused", "poisoned", "rarely committing")

Log = Callable[[str], None]


@dataclass
class Troubles:
    """What happens to the instances of the application, one thing after another."""

    lead: Bellwether
    app: StreamsApp
    rare: StreamsApp
    load: Load
    dice: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def run(self, until: float, message: Log) -> None:
        received = 0
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(*PAUSE_S))
            trouble = self.dice.choice((self.paused, self.poisoned, self.restoring, self.quiet, self.restarted))
            self.done[trouble.__name__] += 1
            message(f"{trouble.__name__}: {trouble()}")
            self._revive()
            reported = alerts(self.lead)
            for alert in reported[received:]:
                message(alert)
            received = len(reported)

    def paused(self) -> str:
        """Within its session, or beyond it."""
        seconds = self.dice.choice((4.0, 20.0, 70.0))
        pid = self.app.instances["paused"].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return f"for {seconds:.0f} s"

    def poisoned(self) -> str:
        """Fails of its next record, however often it is started again."""
        instance = self.app.instances["poisoned"]
        for _ in range(FAILURES):
            instance.send("fail")
            limit = time.monotonic() + 40.0
            while instance.alive and time.monotonic() < limit:
                time.sleep(0.2)
            instance.stop()
            self.app.start(instance.name)
            time.sleep(self.dice.choice((1.0, 12.0)))
        return f"{FAILURES} times"

    def restoring(self) -> str:
        instance = self.app.instances["restoring"]
        instance.stop()
        shutil.rmtree(instance.home / "state", ignore_errors=True)
        self.app.start(instance.name)
        return "without its state"

    def quiet(self) -> str:
        """Nobody has anything to read."""
        seconds = self.dice.choice((30.0, 90.0, 200.0))
        self.load.stop()
        time.sleep(seconds)
        self.load.start(PER_SECOND)
        return f"no input for {seconds:.0f} s"

    def restarted(self) -> str:
        """The one that commits rarely, so that a plan for changed members is followed by a long silence."""
        self.rare.instances["rare"].stop()
        self.rare.start("rare")
        return "the instance that commits rarely"

    def _revive(self) -> None:
        for app in (self.app, self.rare):
            for name in [name for name, instance in app.instances.items() if not instance.alive]:
                app.instances[name].stop()
                app.start(name, settings=SETTINGS.get(name))


SETTINGS = {"slow": {"app.slow.ms": str(SLOW_MS)}}


def alerts(lead: Bellwether) -> tuple[str, ...]:
    message = [line for line in lead.log("membership") if line["what"] in ("ALERT", "REFUSED", "LEFT")]
    return tuple(f"{line['group']}: {line['what']} {line['reason']}" for line in message)


def consume(cluster: KafkaCluster, kind: str, topics: Sequence[str], stopping: threading.Event) -> None:
    """One plain consumer of its kind, again and again where a record ends it."""
    while not stopping.is_set():
        consumer = Consumer(
            cluster.client_config("admin", "admin")
            | {
                "group.id": CONSUMERS,
                "client.id": kind.replace(" ", "-"),
                "session.timeout.ms": 10_000,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": RARE_COMMIT_MS if kind == "rarely committing" else 5_000,
                "enable.auto.commit": kind != "poisoned",
            }
        )
        consumer.subscribe([topics[0]] if kind != "idle" else list(topics))
        try:
            _work(consumer, kind, stopping)
        finally:
            consumer.close()


def _work(consumer: Consumer, kind: str, stopping: threading.Event) -> None:
    """Until a record ends it."""
    while not stopping.is_set():
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if kind == "poisoned":
            stopping.wait(5.0)
            return
        if kind == "slow":
            stopping.wait(2.0)
        if kind == "paused":
            consumer.pause(consumer.assignment())


@dataclass(frozen=True, slots=True)
class Result:
    """`lost`: rebalances that a member led."""

    troubles: dict[str, int]
    hand_backs: tuple[str, ...]
    alerts: tuple[str, ...]
    generations: dict[str, int]
    lost: int


def soak(cluster: KafkaCluster, folder: Path, run_s: float, seed: int, message: Log) -> Result:
    own = {"acceptable_recovery_lag": 1_000, "settings": {"app.marks": "4096"}}
    main = application(cluster, APPLICATION, **own)
    rare = application(cluster, RARE, commit_interval_ms=RARE_COMMIT_MS, **own)
    cluster.create_topic(CONSUMERS, 6)
    cluster.create_topic(f"{CONSUMERS}-idle", 1)
    settings = {app.application_id: settings_of(app, folder) for app in (main, rare)}
    groups = (APPLICATION, RARE, CONSUMERS)
    stopping = threading.Event()
    with ExitStack() as stack:
        lead = stack.enter_context(Bellwether(cluster, groups, own=settings))
        app, other = (stack.enter_context(StreamsApp(cluster, started)) for started in (main, rare))
        load = stack.enter_context(Load(cluster, main.topics[0], keys=20_000))
        second = stack.enter_context(Load(cluster, rare.topics[0], keys=50))
        third = stack.enter_context(Load(cluster, CONSUMERS, keys=50))
        topics = (CONSUMERS, f"{CONSUMERS}-idle")
        threads = [threading.Thread(target=consume, args=(cluster, k, topics, stopping)) for k in CONSUMER_KINDS]
        for thread in threads:
            stack.callback(thread.join, 60)
        stack.callback(stopping.set)
        for thread in threads:
            thread.start()
        load.produce(STATE_RECORDS)
        for name in ("paused", "poisoned", "restoring"):
            app.add(name)
        other.add("rare")
        app.wait_settled()
        app.add("slow", settings=SETTINGS["slow"])
        for source in (load, second, third):
            source.start(PER_SECOND)
        troubles = Troubles(lead, app, other, load, random.Random(seed))
        troubles.run(time.monotonic() + run_s, message)
        reported = alerts(lead)
        led = {group: [r.leader.startswith(INSTANCE) for r in rebalances(cluster, group)] for group in groups}
        return Result(
            dict(troubles.done),
            tuple(text for text in reported if HANDED_BACK in text),
            reported,
            {group: len(by_bellwether) for group, by_bellwether in led.items()},
            sum(by_bellwether.count(False) for by_bellwether in led.values()),
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak.troubled", description=__doc__)
    parser.add_argument("--hours", type=float, default=1 / 6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()

    def message(text: str) -> None:
        print(f"{time.monotonic() - began:8.1f} s  {text}", flush=True)

    with KafkaCluster(nodes=1, racks=("az1",), heap_mb=512) as cluster, tempfile.TemporaryDirectory() as folder:
        result = soak(cluster, Path(folder), options.hours * 3_600, options.seed, message)
    print(f"troubles: {result.troubles}; rebalances: {result.generations}, led by a member: {result.lost}")
    for alert in result.alerts:
        print("alert:", alert)
    print(f"hand-backs: {len(result.hand_backs)}")
    return 1 if result.hand_backs or result.lost else 0


if __name__ == "__main__":
    sys.exit(main())
