"""`make soak HOURS=n`: real brokers, a producer that never stops, groups of mixed clients with joins, leaves, kills,
empty times, orders and growing topics at random. Two Bellwether processes lead them, and one of these is killed,
stopped and started again all the time.

After each action every partition must settle on exactly one member, and at the end no record may have been skipped.
What the processes report of their role must be what brokers show, every second; a group must be led again within a
minute; no member leads the groups of the process that is not restarted, whose memory, open files and threads must
stay flat. Exit code 1 on a violation.
"""

import argparse
import json
import os
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, why_unavailable
from tests.interop.support.ownership import consumed_gaps
from tests.interop.support.rebalances import rebalances
from tests.lab.soak.processes import Process, Watch, make, restart_until
from tests.lab.soak.slopes import Slope, slopes
from tests.lab.soak.world import CONTROL, GROUPS, Actor, Scenario, Topics

CATCH_UP_S = 60.0
GROWTH_PAUSE_S = (20.0, 60.0)  # in a run of ten minutes; topics grow as often in a longer one
TEN_MINUTES_S = 600.0
STEADY, RESTARTED = "steady", "restarted"

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; `violations` is everything that was promised and did not hold."""

    seed: int
    run_s: float
    load: float
    produced: int
    groups: list[dict[str, object]]
    processes: list[dict[str, object]]
    slopes: list[dict[str, object]]
    violations: list[str]


def soak(cluster: KafkaCluster, run_s: float, seed: int, message: Log) -> Report:
    topics = Topics(cluster)
    until = time.monotonic() + run_s
    steady = make(cluster, STEADY, [g.name for g in GROUPS if not g.restarted], {"control_topic": CONTROL})
    restarted = make(cluster, RESTARTED, [g.name for g in GROUPS if g.restarted], {})
    processes = (steady, restarted)
    with ExitStack() as stack:
        for process in processes:
            stack.callback(process.lease.release)
            stack.push(process.lead.__exit__)
            process.start(wait=True)
        flock = stack.enter_context(Flock(cluster.bootstrap))
        watch = Watch(cluster, processes, message)
        stack.callback(watch.stop)
        actors = [
            Actor(group, kinds, flock, topics, restarted if group.restarted else steady, seed)
            for group in GROUPS
            if (kinds := tuple(k for k in group.kinds if why_unavailable(k) is None))
        ]
        topics.start()
        watch.start()
        _live(actors, topics, restarted, until, seed, message)
        topics.stop()
        consumed = {actor.scenario.group.name: _read_to_the_end(actor, topics, flock) for actor in actors}
        watch.stop()
        for actor in actors:
            actor.judge_ownership()
        lines = slopes(steady.samples, run_s)
        for actor in actors:
            _judge_leadership(cluster, actor.scenario)
        groups = [_of_group(cluster, actor.scenario, consumed[actor.scenario.group.name]) for actor in actors]
    wrong = [] if topics.trouble is None else [topics.trouble]
    wrong += [f"{a.scenario.group.name}: {text}" for a in actors for text in a.scenario.violations]
    wrong += [f"{p.name}: {text}" for p in processes for text in (*p.violations, *p.role.differences)]
    wrong += [_too_steep(line) for line in lines if not line.flat]
    reported = [{**asdict(line), "flat": line.flat} for line in lines]
    return Report(
        seed, run_s, os.getloadavg()[0], topics.produced, groups, [*map(_of_process, processes)], reported, wrong
    )


def _live(actors: Sequence[Actor], topics: Topics, restarted: Process, until: float, seed: int, message: Log) -> None:
    threads = [threading.Thread(target=actor.run, args=(until, message), daemon=True) for actor in actors]
    chance = random.Random(f"{seed} restarts")
    threads.append(threading.Thread(target=restart_until, args=(restarted, until, chance, message), daemon=True))
    for thread in threads:
        thread.start()
    _grow(topics, random.Random(f"{seed} growth"), until, message)
    for thread in threads:
        thread.join()


def _grow(topics: Topics, dice: random.Random, until: float, message: Log) -> None:
    slower = max(1.0, (until - time.monotonic()) / TEN_MINUTES_S)
    while (pause := slower * dice.uniform(*GROWTH_PAUSE_S)) < until - time.monotonic():
        time.sleep(pause)
        what = topics.grow(dice)
        if what is not None:
            message(what)
    time.sleep(max(0.0, until - time.monotonic()))


def _read_to_the_end(actor: Actor, topics: Topics, flock: Flock) -> int:
    """Waits until the group has read everything; notes what it has skipped. Returns how many records it reported."""
    scenario = actor.scenario
    ends = topics.ends(scenario.group.topics)
    members = [m for m in flock.members if m.group == scenario.group.name]
    deadline = time.monotonic() + CATCH_UP_S
    while (gaps := consumed_gaps(members, ends)) and time.monotonic() < deadline:
        time.sleep(0.5)
    for (topic, partition), missing in sorted(gaps.items()):
        text = f"{topic}-{partition}: offsets {missing} of {ends[topic, partition]} were never read"
        scenario.violations.append(text)
    return sum(last - first + 1 for m in members for spans in m.consumed.values() for first, last in spans)


def _judge_leadership(cluster: KafkaCluster, scenario: Scenario) -> None:
    """A member that was let in by an order or a long time without members may lead until Bellwether is back."""
    if scenario.group.restarted:
        return
    completed = rebalances(cluster, scenario.group.name)
    excuses = sorted(scenario.let_in_after)
    by_bellwether = [r.leader.startswith(f"{INSTANCE}-") for r in completed]
    for before, r, own in zip([True, *by_bellwether], completed, by_bellwether, strict=False):
        if own or not before:
            continue
        used = next((generation for generation in excuses if generation < r.generation), None)
        if used is None:
            scenario.violations.append(f"a member led from generation {r.generation} on: {r.leader}")
        else:
            excuses.remove(used)


def _of_group(cluster: KafkaCluster, scenario: Scenario, consumed: int) -> dict[str, object]:
    completed = rebalances(cluster, scenario.group.name)
    return {
        "group": scenario.group.name,
        "clients": ", ".join(scenario.group.kinds),
        "joins": scenario.joins,
        "leaves": scenario.leaves,
        "kills": scenario.kills,
        "empty": scenario.empties,
        "orders": scenario.orders,
        "rebalances": len(completed),
        "led by a member": sum(not r.leader.startswith(f"{INSTANCE}-") for r in completed),
        "settling s: median": round(median(scenario.settled_s), 1) if scenario.settled_s else None,
        "most": round(max(scenario.settled_s), 1) if scenario.settled_s else None,
        "records read": consumed,
        "violations": len(scenario.violations),
    }


def _of_process(process: Process) -> dict[str, object]:
    role = process.role
    return {
        "process": process.name,
        "groups": len(process.groups),
        **process.stops,
        "roles compared": role.compared,
        "differences": len(role.differences),
        "longest s": round(role.durations.longest_s, 1),
        "not led s at most": round(process.unled.longest_s, 1),
        "violations": len(process.violations),
    }


def _too_steep(line: Slope) -> str:
    slope = f"{line.per_hour:+.2f} an hour, noise {line.noise_per_hour:.2f}"
    return f"{line.words}: {slope}, may be {line.per_hour_max:g}"


def _table(title: str, rows: Sequence[dict[str, object]]) -> Table:
    table = Table(title=title)
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(f"{v:,.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    return table


def _print(report: Report, console: Console) -> None:
    """Tables, violations in a line each, and last all of it as JSON."""
    console.print(_table("Groups on three brokers", report.groups))
    console.print(_table("Bellwether: the role that it reports, every second, beside the brokers'", report.processes))
    if report.slopes:
        console.print(_table(f"Lines through what the process '{STEADY}' had", report.slopes))
    for violation in report.violations:
        console.print("VIOLATION", violation.splitlines()[0], style="red", highlight=False, markup=False)
    print(json.dumps(asdict(report)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=TEN_MINUTES_S / 3_600)
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier run")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(f"seed {seed}, {options.hours:g} hours")
    began = time.monotonic()

    def message(text: str) -> None:
        console.print(f"{time.monotonic() - began:8.1f} s  {text}", highlight=False, markup=False, style="dim")

    with KafkaCluster() as cluster:
        report = soak(cluster, options.hours * 3_600, seed, message)
    _print(report, console)
    console.print("every promise held" if not report.violations else f"violated; run again with --seed {seed}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
