"""Runs Kafka's system tests of Streams: `make kafka-systests`, or `python -m tests.lab.kafka.systests --scenarios a,b
--leaders java,kafka,streams-ha`. `--list` names the scenarios.

Prints an outcome of each scenario under each leader. Ends with 0 if all passed, 1 if not,
2 if a JDK or Maven is missing or a name is unknown.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError
from tests.interop.support.rebalances import Rebalance
from tests.lab.kafka.systests.programs import FailedError
from tests.lab.kafka.systests.results import LEADERS, Outcome
from tests.lab.kafka.systests.scenarios import SCENARIOS, Scenario
from tests.lab.kafka.systests.scene import Scene, own


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.kafka.systests", description=__doc__)
    parser.add_argument("--scenarios", default="", help="names with commas between; all without any")
    parser.add_argument("--leaders", default=",".join(LEADERS), help="%(default)s")
    parser.add_argument("--list", action="store_true", help="names the scenarios and ends")
    parser.add_argument("--logs", type=Path, help="a folder that keeps what all programs and brokers wrote")
    chosen = parser.parse_args(words)
    names = chosen.scenarios.split(",") if chosen.scenarios else [scenario.name for scenario in SCENARIOS]
    leaders = chosen.leaders.split(",")
    unknown = {*names} - {scenario.name for scenario in SCENARIOS} | {*leaders} - {*LEADERS}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; --list names the scenarios", file=sys.stderr)
        return 2
    if chosen.list:
        print("\n".join(f"{scenario.name:24} {scenario.test}: {scenario.what}" for scenario in SCENARIOS))
        return 0
    outcomes: list[Outcome] = []
    try:
        for scenario in (scenario for scenario in SCENARIOS if scenario.name in names):
            if scenario.missing:
                print(f"{scenario.name}: cannot be run: {scenario.missing}", flush=True)
                continue
            made: dict[str, tuple[str, str]] = {}
            for leader in leaders:
                outcomes.append(run(scenario, leader, made, chosen.logs))
                print_result(outcomes[-1])
    except MissingToolError as missing:
        print(f"Kafka's system tests were not run: {missing}.", file=sys.stderr)
        return 2
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def run(scenario: Scenario, leader: str, made: dict[str, tuple[str, str]], logs: Path | None = None) -> Outcome:
    """One scenario on brokers of its own. What fails, whatever it is, is in the outcome. `made` has the topology files
    of its applications, for the next leader. `logs` gets a folder for it with what everybody wrote."""
    cluster = KafkaCluster(nodes=scenario.nodes, properties=scenario.properties, release=scenario.brokers)
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-systests-") as folder, cluster:
            try:
                return acted(scenario, leader, cluster, Path(folder), made)
            finally:
                if logs is not None:
                    keep_logs(cluster, Path(folder), logs / f"{scenario.name}-{leader}")
    except (OSError, RuntimeError) as error:
        return Outcome(scenario.name, leader, f"the brokers did not start: {error}", 0.0, 0, 0, 0, "", load())


def acted(
    scenario: Scenario, leader: str, cluster: KafkaCluster, folder: Path, made: dict[str, tuple[str, str]]
) -> Outcome:
    assert scenario.steps is not None
    began, failure = time.monotonic(), ""
    with Scene(cluster, leader, folder, began + scenario.limit_s, made) as scene:
        try:
            scenario.steps(scene)
            scene.check_lead()
        except (FailedError, AssertionError, OSError, RuntimeError, KafkaException) as error:
            failure = f"{error}\n{scene.reported()}"
        seconds = round(time.monotonic() - began, 1)
        if scene.bellwether is not None:
            (folder / "bellwether.log").write_text(scene.bellwether.text(), encoding="utf-8")
    completed = scene.rebalances() if scene.group else []
    last = max((rebalance.generation for rebalance in completed), default=0)
    others = [rebalance for rebalance in completed if own(rebalance) is not scene.own]
    led, reported = len(completed) - len(others), led_by_others(scene, others) if others else ""
    return Outcome(
        scenario.name, leader, failure, seconds, last, len(completed), led, scene.described, load(), reported
    )


def led_by_others(scene: Scene, others: Sequence[Rebalance]) -> str:
    """Which generations, and what Bellwether logged as reasons for not leading, in their order."""
    reported = ", ".join(f"{rebalance.generation} ({rebalance.members} members)" for rebalance in others)
    logged = scene.bellwether.log("role", leading=False) if scene.bellwether is not None else []
    reasons = dict.fromkeys(f"{entry.get('reason')}: {entry.get('detail')}" for entry in logged)
    return f"{reported}; {'; '.join(reasons)}"


def keep_logs(cluster: KafkaCluster, folder: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for number, path in enumerate(cluster.log_paths(), start=1):
        shutil.copy(path, target / f"node{number}.log")
    for pattern in ("*.log", "*.yaml", "*/*.log", "*/*.out"):
        for path in folder.glob(pattern):
            shutil.copy(path, target / path.name)


def load() -> float:
    return round(os.getloadavg()[1], 1)


def print_result(outcome: Outcome) -> None:
    verdict = "FAILED" if outcome.failure else "passed"
    print(
        f"{outcome.scenario:24} {outcome.leader:10} {verdict} {outcome.seconds:6.1f} s,"
        f" generation {outcome.generations}, led {outcome.led} of {outcome.rebalances}",
        flush=True,
    )
    if outcome.others:
        print(f"generations that others led: {outcome.others}", flush=True)
    if outcome.failure:
        print(outcome.failure, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
