"""Runs Kafka's own unit tests against us: `make kafka-tests`, or `python -m tests.kafka [CLASS ...]`.

tests/java/kafka-tests weaves our answers into classes with the names of Kafka's. Each test that fails must stand in
differing.yml with its reason, and each that stands there must fail: as often as it says, and with plans that are worth
as much as Kafka's own for the same questions. Ends with 0 if all is as told, 1 if not, 2 if a JDK or Maven is missing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import yaml

from tests.interop.support.jvm import KAFKA_TESTS, Java, MissingToolError, java
from tests.paths import ROOT

CONSUMER = "org.apache.kafka.clients.consumer"
STREAMS = "org.apache.kafka.streams.processor.internals"
CLASSES = (
    f"{CONSUMER}.RangeAssignorTest",
    f"{CONSUMER}.RoundRobinAssignorTest",
    f"{CONSUMER}.CooperativeStickyAssignorTest",
    f"{CONSUMER}.StickyAssignorTest",
    f"{STREAMS}.assignment.AssignmentInfoTest",
    f"{STREAMS}.assignment.SubscriptionInfoTest",
    f"{STREAMS}.assignment.FallbackPriorTaskAssignorTest",
    f"{STREAMS}.assignment.HighAvailabilityTaskAssignorTest",
    f"{STREAMS}.assignment.LegacyStickyTaskAssignorTest",
)
DIFFERING = Path(__file__).with_name("differing.yml")
ORDER, CHOICE = "order", "choice"  # the same sets in another order; another plan that is worth as much
LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class Ran:
    """One test class: how many tests it has, and how often each method failed."""

    name: str
    tests: int
    failed: Counter[str]


@dataclass(frozen=True, slots=True)
class Compared:
    """One question that Kafka's own assignor answered beside us; `worse` says in what our plan is worse."""

    test: str
    assignor: str
    same: bool
    worse: str


def run(jvm: Java, classes: Sequence[str], folder: Path) -> tuple[list[Ran], list[Compared]]:
    """All tests of these classes in one JVM. Raises RuntimeError where it did not come to its end."""
    woven, told = folder / "woven", folder / "compared"
    subprocess.run(jvm.command("bellwether.Weave", str(woven)), check=True, timeout=LIMIT_S)
    python = "\n".join([sys.executable, "-m", "tests.kafka.answers"])
    options = ("-XX:+EnableDynamicAgentLoading", f"-Dbellwether.python={python}", f"-Dbellwether.compared={told}")
    launcher = ("org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none")
    wanted = (f"--reports-dir={folder}", *(f"--select-class={name}" for name in classes))
    command = replace(jvm, classpath=f"{woven}:{jvm.classpath}").command(*launcher, *wanted, options=options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT)
    report = folder / "TEST-junit-jupiter.xml"
    if not report.exists():
        raise RuntimeError(f"JUnit did not come to its end:\n{(done.stdout + done.stderr)[-3000:]}")
    lines = told.read_text().splitlines() if told.exists() else []
    ran = outcomes(ET.parse(report).getroot())  # noqa: S314 - JUnit has written it a moment ago
    return ran, [Compared(**json.loads(line)) for line in lines]


def outcomes(report: ET.Element) -> list[Ran]:
    """The classes of a JUnit report, by name."""
    tests: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = {}
    for case in report.iter("testcase"):
        name = case.attrib["classname"].rpartition(".")[2]
        tests[name] += 1
        broken = case.find("failure") is not None or case.find("error") is not None
        failed.setdefault(name, Counter()).update([case.attrib["name"].partition("(")[0]] if broken else [])
    return [Ran(name, tests[name], failed[name]) for name in sorted(tests)]


def troubles(ran: Ran, told: Mapping[str, Mapping[str, Any]], compared: Iterable[Compared]) -> list[str]:
    """What is not as the reviewed file says, one sentence each."""
    found = [f"{ran.name}.{test} fails and is not listed" for test in sorted(ran.failed.keys() - told.keys())]
    for test, entry in told.items():
        here = f"{ran.name}.{test}"
        if ran.failed[test] != entry["fails"]:
            found.append(f"{here} fails {ran.failed[test]} times, {entry['fails']} are listed")
            continue
        mine = [c for c in compared if c.test == test and (ran.name.startswith(c.assignor) or not c.assignor)]
        worse = [c.worse for c in mine if c.worse]
        if not mine:
            found.append(f"{here} is listed, but no plan of it was compared")
        elif worse:
            found.append(f"{here} is listed, but a plan is worse than Kafka's: {worse[0]}")
        elif entry["kind"] == ORDER and not all(c.same for c in mine):
            found.append(f"{here} is listed as a matter of order, but a plan is another one")
    return found


def draw(ran: Sequence[Ran], compared: Sequence[Compared]) -> None:
    print(f"{'test class':46} {'tests':>6} {'pass':>6}")
    for one in ran:
        print(f"{one.name:46} {one.tests:6} {one.tests - one.failed.total():6}")
    print(f"{'all':46} {sum(r.tests for r in ran):6} {sum(r.tests - r.failed.total() for r in ran):6}")
    same, worse = sum(c.same for c in compared), sum(bool(c.worse) for c in compared)
    print(
        f"plans beside Kafka's: {len(compared)}, the same {same}, as good {len(compared) - same - worse}, worse {worse}"
    )


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka", description=__doc__)
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="simple names; all without any")
    chosen = parser.parse_args(words).classes
    classes = [name for name in CLASSES if not chosen or name.rpartition(".")[2] in chosen]
    told = yaml.safe_load(DIFFERING.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="kafka-tests-") as folder:
        try:
            ran, compared = run(java(KAFKA_TESTS), classes, Path(folder))
        except MissingToolError as missing:
            print(f"Kafka's unit tests were not run: {missing}.", file=sys.stderr)
            return 2
    draw(ran, compared)
    found = [trouble for one in ran for trouble in troubles(one, told.get(one.name, {}), compared)]
    missing_classes = {name.rpartition(".")[2] for name in classes} - {one.name for one in ran}
    found += [f"{name} was not run" for name in sorted(missing_classes)]
    for trouble in found:
        print(f"NOT AS TOLD: {trouble}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
