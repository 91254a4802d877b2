"""Outcomes of scenarios: kept beside the page as JSON, so that a run of some replaces only theirs, and the page."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from tests.kafka.systests.scenarios import Scenario
from tests.paths import DOCS

PAGE = DOCS / "evidence" / "kafka-systests.md"
KEPT = DOCS / "evidence" / "kafka-systests.json"
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
`kafka` and once with `streams-ha`, from the first start of a fresh application. A scenario passes if the test's own
verification does and, where Bellwether is to lead, Bellwether led the first start.

Topology files are what `bellwether topology parse` prints, unedited: from the text of `Topology.describe()` alone where
that shows all that is needed, and otherwise with `--bootstrap`, while an application that Java leads has its topics;
that one is then reset.

*Generations* is the number of the last one; one with Bellwether alone in the empty group counts as well. *Rebalances
after the first* are those in which the application took part, and *led* says how many of all its rebalances the leader
under test led. *Load* is the machine's at the end of the run, as `uptime` shows it for five minutes; two cores are busy
at 2. Waits are bounded, so repeat a run that failed at a load far above that before you draw conclusions.
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

    @property
    def verdict(self) -> str:
        return "**failed**" if self.failure else "passed"


def merged(fresh: Sequence[Outcome]) -> list[Outcome]:
    """What is kept with these in the place of their predecessors, written down."""
    old = [Outcome(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))] if KEPT.exists() else []
    rows = {(one.scenario, one.leader): one for one in (*old, *fresh)}
    kept = [asdict(replace(one, failure=_short(one.failure))) for one in rows.values()]
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return list(rows.values())


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
        rows = [found[scenario.name, leader] for leader in LEADERS if (scenario.name, leader) in found]
        lines += [_row(one) for one in rows] or [f"| `{scenario.name}` | | not run yet | | | | | | |"]
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
