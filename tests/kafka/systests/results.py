"""Outcomes of scenarios: kept beside the page as JSON, so that a run of some replaces only theirs, and the page."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.interop.support.jvm import CACHE, file_lock
from tests.kafka.systests.scenarios import Scenario
from tests.paths import DOCS

PAGE = DOCS / "evidence" / "kafka-systests.md"
KEPT = DOCS / "evidence" / "kafka-systests.json"
LOCK = CACHE / ".systests.lock"
LEADERS = ("java", "kafka", "streams-ha")
COLUMNS = (
    *("scenario", "leader", "verdict", "seconds", "generations", "rebalances after the first"),
    *("led", "file", "load"),
)
HEAD = """# Kafka's system tests of Streams

Kafka's own system tests of Streams, each led by Java and by Bellwether, with the verdict of the test's own
verification. `make kafka-systests` writes this page; do not edit it.

## Summary
"""
METHOD = """## Method

The programs of Kafka's system tests (`org.apache.kafka.streams.tests` in
the `test` jar of kafka-streams 4.3.0) run as they are released, in the steps of Kafka's own scripts
(kafkatest), on real brokers. Each scenario is led once by Java, once by Bellwether with policy
`kafka` (`sticky` where the program sets Kafka's sticky assignor: `standby-replicas`, `broker-down-scale-in` and
`broker-down-kill`) and once with `streams-ha`, from the first start of a fresh application. A scenario passes if the
test's own verification does and, where Bellwether is to lead, Bellwether led the first start.

Topology files are what `bellwether topology parse` prints, unedited: from the text of `Topology.describe()` alone where
that shows all that is needed, and otherwise with `--bootstrap`, while an application that Java leads has its topics;
that one is then reset. Where both policies lead a scenario in one go, the second uses the file of the first.

*Generations* is the number of the last one; one with Bellwether alone in the empty group counts as well. *Rebalances
after the first* are those in which the application took part, and *led* says how many of all its rebalances the leader
under test led; where that is not all of them, a list below says which others led, and why. *Load* is the machine's at
the end of the run, as `uptime` shows it for five minutes; two cores are busy at 2. Waits are bounded, so repeat a run
that failed at a load far above that before you draw conclusions.

Instances that start or end at nearly the same time share rebalances, so numbers of generations differ by chance,
too. In `standby-replicas` each start after the first causes two rebalances and each end one, under each leader;
compare the logs (`--logs`) before you compare sums.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario under one leader. `failure` is "" where it passed; `file` says what the topology file is made of."""

    scenario: str
    leader: str
    failure: str
    seconds: float
    generations: int
    rounds: int
    led: int
    file: str
    load: float = 0.0  # of the machine over the last five minutes of it; 0: not known
    others: str = ""  # generations that somebody else led, and why

    @property
    def verdict(self) -> str:
        return "**failed**" if self.failure else "passed"


def keep(
    fresh: Sequence[Outcome], scenarios: Sequence[Scenario], *, kept: Path = KEPT, shown: Path = PAGE, lock: Path = LOCK
) -> None:
    """Writes these down in the place of their predecessors, and the page. Several runs may do so at a time."""
    with file_lock(lock):
        old = [Outcome(**row) for row in json.loads(kept.read_text(encoding="utf-8"))] if kept.exists() else []
        rows = {(one.scenario, one.leader): one for one in (*old, *fresh)}
        short = [replace(one, failure=_short(one.failure)) for one in rows.values()]
        _write(kept, json.dumps([asdict(one) for one in short], indent=1) + "\n")
        _write(shown, page(short, scenarios))


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a run that is killed here must not lose what others found."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def page(outcomes: Sequence[Outcome], scenarios: Sequence[Scenario]) -> str:
    found = {(one.scenario, one.leader): one for one in outcomes}
    lines = [HEAD, *_summary(outcomes), METHOD, "## Scenarios", ""]
    lines += ["| scenario | Kafka's test | what happens |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.test} | {one.what} |" for one in scenarios]
    lines += [
        "",
        "| scenario | leader | verdict | seconds | generations | rebalances after the first | led | file | load |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for scenario in scenarios:
        if scenario.missing:
            lines.append(f"| `{scenario.name}` | | cannot be run: {scenario.missing} | | | | | | |")
            continue
        lines += [
            _row(found[scenario.name, leader])
            if (scenario.name, leader) in found
            else f"| `{scenario.name}` | {leader} | not run yet | | | | | | |"
            for leader in LEADERS
        ]
    others = [one for one in outcomes if one.others]
    lines += ["", "## Generations that others led", ""] if others else []
    lines += [f"- `{one.scenario}`, {one.leader}: {one.others}" for one in others]
    failed = [one for one in outcomes if one.failure]
    lines += ["", "## Failures", ""] if failed else []
    lines += [f"- `{one.scenario}`, {one.leader}: {_short(one.failure)}" for one in failed]
    return "\n".join(lines) + "\n"


def _summary(outcomes: Sequence[Outcome]) -> list[str]:
    by_leader = [[one for one in outcomes if one.leader == leader] for leader in LEADERS]
    rows = zip(LEADERS, by_leader, strict=True)
    counts = [f"| {leader} | {len(mine)} | {sum(not one.failure for one in mine)} |" for leader, mine in rows]
    return ["| leader | scenarios run | passed |", "|---|---|---|", *counts, ""]


def _row(one: Outcome) -> str:
    led = f"{one.led} of {one.rounds}"
    after = max(0, one.rounds - 1)
    return (
        f"| `{one.scenario}` | {one.leader} | {one.verdict} | {one.seconds:.0f} | {one.generations} | {after} | {led} "
        f"| {one.file or '-'} | {one.load or '-'} |"
    )


def _short(failure: str) -> str:
    """The first line; what programs wrote below it names places of one machine."""
    return " ".join(failure.partition("\n")[0].split())[:300]


if __name__ == "__main__":  # the page of what is kept, without a run
    from tests.kafka.systests.scenarios import SCENARIOS

    kept = [Outcome(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))]
    PAGE.write_text(page(kept, SCENARIOS), encoding="utf-8")
