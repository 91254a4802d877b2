"""One run of Kafka's unit tests in one JVM, which asks one Python process (tests/java/kafka-tests)."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.interop.support.jvm import Java
from tests.paths import ROOT

LIMIT_S = 900
JVM = ("-Xmx3g", "-XX:+UseSerialGC")  # a million partitions, twice


@dataclass(frozen=True, slots=True)
class Case:
    """One test as it ended. `failure` is "" where it passed; `asked` is how many questions of it Bellwether
    answered."""

    test_class: str
    method: str
    name: str
    failure: str
    asked: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Compared:
    """One question that Kafka's own code answered beside Bellwether. Of each measure less is better; the first counts
    most.

    `at_rest` are the measures of what Bellwether's plan and Kafka's come to when rebalance by rebalance everything that
    was assigned has caught up; its moves are those of all these rebalances. None where the run did not look so far
    ahead."""

    test_class: str
    method: str
    name: str
    same: bool
    own: Mapping[str, float]
    theirs: Mapping[str, float]
    at_rest: tuple[Mapping[str, float], Mapping[str, float]] | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    cases: tuple[Case, ...]
    compared: tuple[Compared, ...]


def run(jvm: Java, classes: Sequence[str], policy: str, ahead: Iterable[str] = ()) -> Ran:
    """All tests of these classes; of plans of the methods `ahead` also what they come to. Raises RuntimeError where the
    JVM did not come to its end."""
    with tempfile.TemporaryDirectory(prefix="kafka-tests-") as folder:
        woven, report = Path(folder, "woven"), Path(folder, "report.jsonl")
        subprocess.run(jvm.command("bellwether.Weave", str(woven)), check=True, timeout=LIMIT_S)
        python = "\n".join([sys.executable, "-m", "tests.lab.kafka.answers", policy])
        of_report = (f"-Dbellwether.python={python}", f"-Dbellwether.ahead={','.join(ahead)}")
        options = (*JVM, "-XX:+EnableDynamicAgentLoading", *of_report)
        over = replace(jvm, classpath=f"{woven}:{jvm.classpath}")
        command = over.command("bellwether.Report", str(report), *classes, options=options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"the JVM did not come to its end:\n{(done.stdout + done.stderr)[-3000:]}")
        return read(report.read_text(encoding="utf-8"))


def read(report: str) -> Ran:
    """What bellwether.Report has written: a line of JSON for each test and each comparison."""
    cases: list[Case] = []
    compared: list[Compared] = []
    for line in map(json.loads, report.splitlines()):
        kind = line.pop("kind")
        if kind == "test":
            cases.append(Case(**line))
        else:
            ahead = tuple(line[side].pop("at rest", None) for side in ("own", "theirs"))
            compared.append(Compared(**line, at_rest=None if None in ahead else ahead))
    return Ran(tuple(cases), tuple(compared))
