"""The outcome of a run of Kafka's unit tests, for people: on the screen, and as docs/evidence/kafka-tests.md."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.kafka.run import Case, Ran
from tests.kafka.verdicts import KINDS, Differing, troubles, worse
from tests.paths import DOCS

PAGE = DOCS / "evidence" / "kafka-tests.md"
INTRO = """# Kafka's own unit tests

Kafka's unit tests of its assignors with Bellwether's plans in the place of Kafka's, by release and policy.
`make kafka-tests` writes this page; do not edit it.

## Summary

Each test that differs is listed below with its reason.
"""
METHOD = """## Method

Kafka's unit tests of its consumer and Streams assignors run as they are released. In the classes that they test, the
methods that decide or encode are replaced: each asks a Python process, in which Bellwether's code answers. Consumers go
there as the bytes that they would send in JoinGroup, and what comes back are the bytes of SyncGroup. Seeds that Kafka's
convergence tests take from the clock are fixed.

A test that differs is listed in `tests/kafka/differing.yml` with its reason and a check, made in every run: Kafka's own
class answers the same question, and both plans are measured. The measures of consumers are the partitions without an
owner, the unevenness of loads, moves, and partitions read across racks; those of applications the missing copies, the
unevenness of active tasks, copies that share a rack with another one of their task, the unevenness of all copies, the
cost of racks, and moves. What comes first counts most, and Bellwether's plan must not be worse. Where it is worth as
much only later, both plans are followed until everything has caught up and nothing moves any more. A difference that is
not listed fails the run, and so does one that is listed and no longer there.

*asked*: tests of which Bellwether had to answer at least one question. The others test other parts of Kafka's classes,
or pass what Bellwether's types cannot hold (a task that two processes run).
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One run: simple names of the classes, what came out, and what is listed."""

    release: str
    policy: str
    classes: tuple[str, ...]
    ran: Ran
    told: Differing

    def cases(self, test_class: str) -> list[Case]:
        return [case for case in self.ran.cases if case.test_class == test_class]


def draw(result: Result, seconds: float) -> None:
    print(f"\nKafka {result.release}, policy {result.policy}: {seconds:.0f} s")
    print(f"{'test class':46} {'tests':>6} {'asked':>6} {'pass':>6} {'slowest':>8}")
    for name in result.classes:
        cases = result.cases(name)
        slowest = max((case.seconds for case in cases), default=0.0)
        print(f"{name:46} {len(cases):6} {_asked(cases):6} {_passed(cases):6} {slowest:7.1f}s")
    cases = list(result.ran.cases)
    for case in cases:
        if case.failure and (case.test_class, case.method) not in result.told:
            print(f"  {case.test_class}.{case.method} {case.name}: {case.failure[:300]}")
    print(f"{'all':46} {len(cases):6} {_asked(cases):6} {_passed(cases):6}")
    plans = result.ran.compared
    same, bad = sum(plan.same for plan in plans), sum(bool(worse(plan.ours, plan.theirs)) for plan in plans)
    print(
        f"plans beside Kafka's: {len(plans)}, the same {same}, as good or better {len(plans) - same - bad}, worse {bad}"
    )


def _asked(cases: Sequence[Case]) -> int:
    return sum(case.asked > 0 for case in cases)


def _passed(cases: Sequence[Case]) -> int:
    return sum(not case.failure for case in cases)


def page(results: Sequence[Result]) -> str:
    sections = (line for result in results for line in _section(result))
    return "\n".join((INTRO, *_summary(results), METHOD, *sections)).rstrip("\n") + "\n"


def _summary(results: Sequence[Result]) -> Iterator[str]:
    yield "| Kafka | policy | tests | asked | pass | differ |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        cases = list(result.ran.cases)
        counts = f"{len(cases)} | {_asked(cases)} | {_passed(cases)} | {len(cases) - _passed(cases)}"
        yield f"| {result.release} | `{result.policy}` | {counts} |"
    yield ""


def _section(result: Result) -> Iterator[str]:
    yield f"## Kafka {result.release}, policy `{result.policy}`\n"
    yield "| test class | tests | asked | pass | differ |"
    yield "|---|---|---|---|---|"
    for name in (*result.classes, ""):
        cases = result.cases(name) if name else list(result.ran.cases)
        differ = len(cases) - _passed(cases) or ""
        yield f"| {name or '**all**'} | {len(cases)} | {_asked(cases)} | {_passed(cases)} | {differ} |"
    yield ""
    found = troubles(result.ran, result.told, frozenset(result.classes))
    if found:
        yield "Not as listed:\n"
        yield from (f"- {trouble}" for trouble in found)
        yield ""
    if not result.told:
        return
    yield "| test that differs | runs | what it is | why |"
    yield "|---|---|---|---|"
    for (test_class, method), entry in sorted(result.told.items()):
        total = sum(case.method == method for case in result.cases(test_class))
        yield f"| {test_class}<br>`{method}` | {entry.fails} of {total} | {KINDS[entry.kind]} | {entry.why} |"
    yield ""
