"""Measures a Streams application under a leader: `python -m tests.measure.streams --leader java --runs 3`.

Each run makes a new application with the same load, the same state and the same placement of every topic, disturbs it
once, and waits until every task runs again and nothing moves. What is measured comes from the instances' own reports
and from the brokers' logs; only who leads differs.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.rounds import rounds
from tests.interop.support.streams_app import Application, StreamsApp
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import (
    LEADERS,
    POLICY,
    RACKS,
    check_leader,
    create_topics,
    foreign_partitions,
    leading,
)

PARTITIONS = 6
KEYS = 60_000
PRELOADED = 300_000
PER_SECOND = 1_500
QUIET_S = 4.0
# A Java leader moves warm tasks at its probing rebalance, a minute after it began to warm them; two may be needed.
LIMIT_S = 240.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. Unowned: no instance runs the task; stalled: nobody processes its records. Both per task, over the run.

    `settled_s` is from the disturbance to the last change of any task or assignment; `rebalances` are generations
    whose leader delivered a plan; `restored` are records read by active tasks before they ran, `loaded` by standby and
    warm-up tasks (the steady updates included); `foreign` are source and changelog partitions of active tasks without
    a replica in the owner's rack, of `partitions`; `spread` is the difference in tasks between fullest and emptiest;
    `late` counts instances that were back only when their session had ended: compare only runs where it is alike, and
    `load`, the machine's load average of the last minute.
    """

    leader: str
    scenario: str
    run: int
    settled_s: float
    rebalances: int
    unowned_ms_max: int
    unowned_ms_sum: int
    stalled_ms_max: int
    stalled_ms_sum: int
    moves: int
    restored: int
    loaded: int
    foreign: int
    partitions: int
    spread: int
    late: int
    exact: bool
    load: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many instances there are before, and what happens to them; `spread` is what must be reached after."""

    name: str
    instances: int
    disturb: Callable[[StreamsApp], None]
    spread: int
    restarts: bool = False

    def suits(self, leader: str) -> bool:
        """Only who restarts leaves ghosts."""
        return self.restarts or not leader.endswith("-ghosts")


def _scale_out(app: StreamsApp) -> None:
    app.add("app-3", RACKS[2])


def _rolling_restart(app: StreamsApp) -> None:
    for name in list(app.instances):
        assert app.instances[name].stop() == 0, app.tell()
        app.start(name)
        app.wait_settled(quiet_s=1.0, limit_s=LIMIT_S)


def _crash(app: StreamsApp) -> None:
    app.instances["app-2"].kill()


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("scale-out", 2, _scale_out, spread=1),
        Scenario("rolling-restart", 3, _rolling_restart, spread=1, restarts=True),
        Scenario("crash", 3, _crash, spread=2),  # as even as Java makes it; Bellwether waits before it evens out
    )
}


def measure(
    cluster: KafkaCluster, leader: str, scenario: Scenario, run: int, policy: str = POLICY, logs: Path | None = None
) -> Measured:
    """One run on these brokers. Raises AssertionError when the application does not settle or another leader led.

    What everybody said is written to the directory `logs`, if one is given, however the run ends.
    """
    name = f"measure-{leader}-{scenario.name}-{run}-{int(time.time())}"
    application = Application(
        name,
        (f"{name}-in",),
        f"{name}-out",
        PARTITIONS,
        threads=2,
        standbys=1,
        rack_strategy="min_traffic",
    )
    create_topics(cluster, application)
    with ExitStack() as stack:
        load = stack.enter_context(Load(cluster, application.topics[0], KEYS))
        load.produce(PRELOADED)
        bellwether = stack.enter_context(leading(cluster, leader, application, policy))
        app = stack.enter_context(StreamsApp(cluster, application))
        if logs is not None:
            stack.callback(_keep, logs / f"{scenario.name}-{leader}-{run}.jsonl", app, bellwether)
        for number in range(scenario.instances):
            app.add(f"app-{number + 1}", RACKS[number])
        app.wait_settled(spread=1, quiet_s=QUIET_S, limit_s=LIMIT_S)
        app.wait_counted(load.expected, limit_s=LIMIT_S)
        load.start(PER_SECOND)
        time.sleep(1.0)
        before = len(rounds(cluster, name))
        began_ms = int(time.time() * 1000)
        scenario.disturb(app)
        owners = app.wait_settled(spread=scenario.spread, quiet_s=QUIET_S, limit_s=LIMIT_S)
        settled_ms = app.timeline().last_change_ms(began_ms)
        load.stop()
        exact = _counts_exactly(app, load, crashed=scenario.name == "crash")
        check_leader(cluster, name, leader)
        foreign, total = foreign_partitions(app, owners)
        line = app.timeline()
        assert line.overlaps() == [], line.overlaps()
        unowned = line.unowned_ms(application.tasks, began_ms, settled_ms).values()
        stalled = line.stalled_ms(application.tasks, began_ms, settled_ms).values()
        return Measured(
            leader=leader,
            scenario=scenario.name,
            run=run,
            settled_s=(settled_ms - began_ms) / 1000,
            rebalances=len(rounds(cluster, name)) - before,
            unowned_ms_max=max(unowned),
            unowned_ms_sum=sum(unowned),
            stalled_ms_max=max(stalled),
            stalled_ms_sum=sum(stalled),
            moves=line.moves(began_ms, settled_ms),
            restored=line.restored(began_ms, settled_ms),
            loaded=line.standby_loaded(began_ms, settled_ms),
            foreign=foreign,
            partitions=total,
            spread=app.spread(),
            late=len(line.late(began_ms, settled_ms)),
            exact=exact,
            load=round(os.getloadavg()[0], 1),
        )


def _keep(file: Path, app: StreamsApp, bellwether: Bellwether | None) -> None:
    """All reports of the instances, and the log of Bellwether, as JSON lines."""
    said = [{**h.said, "instance": h.instance} for h in app.timeline().ordered]
    logged = bellwether.log() if bellwether is not None else []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(entry) + "\n" for entry in (*said, *logged)))


def _counts_exactly(app: StreamsApp, load: Load, *, crashed: bool) -> bool:
    """At least once: after a crash a record may be counted again, but every number of every key must be there."""
    try:
        app.wait_counted(load.expected, exactly_once=not crashed, limit_s=LIMIT_S)
    except AssertionError as wrong:
        print(wrong, file=sys.stderr)
        return False
    return True


def table(results: Sequence[Measured]) -> Table:
    """Every run, and the medians where a scenario ran more than once."""
    shown = Table(title="One Streams application, the same load, state and brokers")
    columns = ("scenario", "leader", "run", "settled s", "rebalances", "unowned ms max/sum", "stalled ms max/sum")
    for column in (*columns, "moves", "restored", "loaded", "foreign", "spread", "late", "exact", "load"):
        shown.add_column(column, justify="left" if column in ("scenario", "leader") else "right")
    for scenario in SCENARIOS:
        for leader in LEADERS:
            runs = [r for r in results if (r.scenario, r.leader) == (scenario, leader)]
            for result in runs:
                shown.add_row(scenario, leader, *_cells(str(result.run), [result]))
            if len(runs) > 1:
                shown.add_row(scenario, leader, *_cells("median", runs), style="bold", end_section=True)
    return shown


def _cells(run: str, results: Sequence[Measured]) -> Iterable[str]:
    def median(field: str) -> float:
        return float(statistics.median(getattr(result, field) for result in results))

    return (
        run,
        f"{median('settled_s'):.1f}",
        f"{median('rebalances'):.0f}",
        f"{median('unowned_ms_max'):.0f} / {median('unowned_ms_sum'):.0f}",
        f"{median('stalled_ms_max'):.0f} / {median('stalled_ms_sum'):.0f}",
        *(f"{median(field):.0f}" for field in ("moves", "restored", "loaded")),
        f"{median('foreign'):.0f}/{results[0].partitions}",
        f"{median('spread'):.0f}",
        f"{median('late'):.0f}",
        "yes" if all(result.exact for result in results) else "NO",
        f"{median('load'):.0f}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leader", choices=LEADERS, action="append", help="repeat for several; all by default")
    parser.add_argument("--scenario", choices=tuple(SCENARIOS), action="append", help="all by default")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policy", default=POLICY, help="of Bellwether")
    parser.add_argument("--logs", type=Path, help="a directory for what everybody said in each run")
    parser.add_argument("--json", type=Path, help="write every run there as a JSON line")
    options = parser.parse_args()
    results: list[Measured] = []
    planned = [
        (leader, SCENARIOS[scenario], run)
        for run in range(1, options.runs + 1)
        for scenario in options.scenario or SCENARIOS
        for leader in options.leader or filter(SCENARIOS[scenario].suits, LEADERS)
    ]
    with KafkaCluster() as cluster, ExitStack() as stack:
        sink = stack.enter_context(options.json.open("w")) if options.json else sys.stderr
        for leader, scenario, run in planned:
            try:
                results.append(measure(cluster, leader, scenario, run, options.policy, options.logs))
            except AssertionError as failure:
                print(f"{scenario.name} under {leader}, run {run}: {failure}", file=sys.stderr, flush=True)
            else:
                print(json.dumps(asdict(results[-1])), file=sink, flush=True)
    Console(width=170 if not sys.stdout.isatty() else None).print(table(results))
    return 0 if len(results) == len(planned) and all(result.exact for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
