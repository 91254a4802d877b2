"""`make demo-streams`: three real brokers in three racks, and a real Streams application (exactly once) under load,
whose group Bellwether leads. An instance is added, one is killed and comes back; what runs where is shown as it moves,
and at the end the counts must be exact.

Ends by itself, with 1 and a sentence when something did not hold.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from rich.console import Console
from rich.rule import Rule

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import RUNNING, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import RACKS, check_leader, create_topics, foreign_partitions, leading
from tests.lab.demo_streams.screen import Scene, progress, show_counts, show_rebalances, show_summary, show_tasks

GROUP = "shop"
KEYS = 12_000
PRELOADED = 36_000
PER_SECOND = 500
TOTAL_S = 175.0
QUIET_S = 3.0
TICK_S = 0.1
MESSAGE_S = 1.0
WIDTH = 132
APPLICATION = Application(
    GROUP,
    ("orders",),
    "tenths",
    partitions=6,
    threads=2,
    standbys=1,
    guarantee="exactly_once_v2",
    acceptable_recovery_lag=500,
    warmups=4,
    session_timeout_ms=6_000,
    heartbeat_interval_ms=500,
    commit_interval_ms=100,
    rack_strategy="min_traffic",
)


class DemoError(Exception):
    """Something did not hold; the message is a sentence."""


@dataclass
class Stage:
    """The props and what was seen so far. `deadline` is on the monotonic clock."""

    console: Console
    cluster: KafkaCluster
    app: StreamsApp
    deadline: float
    process: Bellwether
    scenes: list[Scene] = field(default_factory=list)
    decisions_shown: int = 0

    def begin(self, what: str) -> tuple[str, int, int]:
        """Announces a scene and marks its beginning: title, time and completed rebalances."""
        elapsed_s = TOTAL_S - (self.deadline - time.monotonic())
        self.console.print(Rule(f"[dim]{elapsed_s:.0f} s[/]  [bold]{what}", align="left", style="cyan"))
        return what, int(time.time() * 1000), len(rebalances(self.cluster, GROUP))

    def settle(self, mark: tuple[str, int, int], *, spread: int | None) -> None:
        """Waits until every task runs and nothing moves, saying what changes meanwhile. Raises DemoError."""
        what, began_ms, rebalances_before = mark
        before = ""
        message_at = 0.0
        with self.console.status("") as status:
            while not self._settled(spread):
                now = progress(self.app)
                status.update(f"[dim]{now}")
                if now != before and time.monotonic() - message_at > MESSAGE_S:
                    seconds = time.time() - began_ms / 1000
                    self.console.print(f"[dim]{seconds:5.1f} s[/]  {now}", highlight=False)
                    before, message_at = now, time.monotonic()
                self._refuse_trouble(what)
                time.sleep(TICK_S)
        line = self.app.timeline()
        settled_ms = line.last_change_ms(began_ms)
        scene = Scene(
            what=what,
            settled_s=(settled_ms - began_ms) / 1000,
            rebalances=rebalances(self.cluster, GROUP)[rebalances_before:],
            unowned_ms_max=max(line.unowned_ms(APPLICATION.tasks, began_ms, settled_ms).values()),
            moves=line.moves(began_ms, settled_ms),
            restored=line.restored(began_ms, settled_ms),
            loaded=line.standby_loaded(began_ms, settled_ms),
            foreign=foreign_partitions(self.app, self.app.owners())[0],
        )
        self.scenes.append(scene)
        show_tasks(self.console, self.app)
        decisions = self.process.log("streams_decision", group=GROUP)
        show_rebalances(self.console, decisions[self.decisions_shown :])
        self.decisions_shown = len(decisions)
        self.console.print(f"[dim]settled in {scene.settled_s:.1f} s\n")

    def _settled(self, spread: int | None) -> bool:
        live = self.app.live
        undisturbed = all(instance.state == RUNNING and instance.quiet_s > QUIET_S for instance in live)
        return undisturbed and self.app.complete() and (spread is None or self.app.spread() <= spread)

    def _refuse_trouble(self, what: str) -> None:
        for instance in self.app.instances.values():
            if instance.errors:
                raise DemoError(f"{instance.name} failed ({what}): {instance.errors[-1]}.")
        if time.monotonic() > self.deadline:
            missing = sorted(APPLICATION.tasks - {task for i in self.app.live for task in i.running})
            without = f"{len(missing)} tasks run nowhere" if missing else "the tasks are not balanced"
            raise DemoError(
                f"The demo was not over after {TOTAL_S:.0f} s; {what}: {without}. Is the machine very busy?"
            )


def play(stage: Stage, load: Load) -> None:
    """The scenes, in order. Raises DemoError or AssertionError."""
    app = stage.app
    mark = stage.begin("Two instances start, in az1 and az2")
    for number in (1, 2):
        app.add(f"{GROUP}-{number}", RACKS[number - 1])
    stage.settle(mark, spread=1)
    app.wait_counted(load.expected)
    load.start(PER_SECOND)

    mark = stage.begin("A third instance joins in az3; what has much state warms up there before it moves")
    app.add(f"{GROUP}-3", RACKS[2])
    stage.settle(mark, spread=1)

    mark = stage.begin(f"{GROUP}-2 is killed (kill -9: its session must expire first); standbys take over")
    app.instances[f"{GROUP}-2"].kill()
    stage.settle(mark, spread=None)

    mark = stage.begin(f"{GROUP}-2 comes back with its old state; its tasks return as they are warm")
    app.start(f"{GROUP}-2")
    stage.settle(mark, spread=1)
    load.stop()


def judge(stage: Stage, load: Load) -> None:
    """Everything that must have held. Raises AssertionError, or DemoError with a sentence."""
    expected = load.expected
    totals = stage.app.wait_counted(expected, exactly_once=True, limit_s=30.0)
    show_summary(stage.console, stage.scenes)
    show_counts(stage.console, totals, expected)
    overlaps = stage.app.timeline().overlaps()
    if overlaps:
        raise DemoError(f"A task ran twice at once: {overlaps[0]}.")
    check_leader(stage.cluster, GROUP, "bellwether")
    stage.console.print(
        f"[bold green]{expected.seen:,} records were counted exactly once; no task ran twice at a time; "
        "Bellwether led every rebalance.[/]"
    )


def perform(console: Console) -> None:
    """Runs the whole demo. Raises DemoError, AssertionError or MissingToolError."""
    began = time.monotonic()
    with ExitStack() as stack:
        console.print("[dim]starting three brokers")
        cluster = stack.enter_context(KafkaCluster())
        create_topics(cluster, APPLICATION)
        load = stack.enter_context(Load(cluster, APPLICATION.topics[0], KEYS))
        load.produce(PRELOADED)
        process = stack.enter_context(leading(cluster, APPLICATION))
        what = "a Streams application of 18 tasks; [bold]Bellwether[/] leads"
        console.print(f"Three Kafka brokers in the racks {', '.join(RACKS)}; {what}.\n")
        app = stack.enter_context(StreamsApp(cluster, APPLICATION))
        stage = Stage(console, cluster, app, began + TOTAL_S, process)
        play(stage, load)
        judge(stage, load)
    console.print(f"[dim]{time.monotonic() - began:.0f} s")


def main() -> int:
    argparse.ArgumentParser(prog="make demo-streams", description=__doc__).parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        perform(console)
    except (DemoError, AssertionError, MissingToolError) as error:
        console.print(f"[bold red]{error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
