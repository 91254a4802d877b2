"""Whether a run of Kafka's unit tests came out as the reviewed file says.

A test that fails must stand in differing.yml, and a listed one must fail: as often as it says, and with plans
that are worth as much as Kafka's own for the same questions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.kafka.run import Compared, Ran

DIFFERING = Path(__file__).with_name("differing.yml")
ORDER, CHOICE, LATER, RACKS = "order", "choice", "later", "racks"
KINDS = {
    ORDER: "the same sets in another order",
    CHOICE: "another plan that is worth as much or more",
    LATER: "worth as much or more when everything has caught up, with fewer moves until then",
    RACKS: "copies of the same task are on more racks; for that processes have less even numbers of copies",
}
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Listed:
    """One test that differs: `fails` is how many of its runs, `kind` what must be true of its plans."""

    fails: int
    kind: str
    why: str


Differing = Mapping[tuple[str, str], Listed]


def listed(policy: str, release: str, text: str | None = None) -> Differing:
    """The reviewed file for one policy, by test class and method. Raises ValueError for a kind that there is not."""
    reported = yaml.safe_load(DIFFERING.read_text(encoding="utf-8") if text is None else text)
    entries: dict[tuple[str, str], Listed] = {}
    for test_class, tests in reported.get(policy, {}).items():
        for method, entry in tests.items():
            fails = _of_release(entry["fails"], release)
            if entry["kind"] not in KINDS:
                raise ValueError(f"{test_class}.{method} is of no known kind: {entry['kind']}")
            if fails:
                entries[test_class, method] = Listed(fails, entry["kind"], entry["why"])
    return entries


def _of_release(fails: Any, release: str) -> int:
    number: int = fails.get(release, 0) if isinstance(fails, dict) else fails
    return number


def worse(own: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """In what Bellwether's plan is worse than Kafka's own, "" if in nothing. A measure counts if those before it are
    equal."""
    for name, mine in own.items():
        if abs(mine - theirs[name]) > _LEAST:
            return f"{name} {mine:g} > {theirs[name]:g}" if mine > theirs[name] else ""
    return ""


def ahead(reported: Differing) -> list[str]:
    """The methods of which a run has to compare what plans come to."""
    return sorted(method for (_, method), entry in reported.items() if entry.kind == LATER)


def troubles(ran: Ran, reported: Differing, classes: frozenset[str]) -> list[str]:
    """What is not as the reviewed file says, one sentence each."""
    failed: dict[tuple[str, str], int] = {}
    for case in ran.cases:
        if case.failure:
            failed[case.test_class, case.method] = failed.get((case.test_class, case.method), 0) + 1
    failures = [f"{test}.{method} fails and is not listed" for test, method in sorted(failed.keys() - reported.keys())]
    for (test, method), entry in reported.items():
        if test in classes:
            failures += _judge(f"{test}.{method}", entry, failed.get((test, method), 0), _plans(ran, test, method))
    for test in sorted(classes):
        mine = [case for case in ran.cases if case.test_class == test]
        if not any(case.asked for case in mine):
            failures.append(f"{test} asked us nothing" if mine else f"{test} was not run")
    return failures


def _plans(ran: Ran, test: str, method: str) -> list[Compared]:
    """Those of the runs that failed."""
    failed = {case.name for case in ran.cases if (case.test_class, case.method) == (test, method) and case.failure}
    return [c for c in ran.compared if (c.test_class, c.method) == (test, method) and c.name in failed]


def _judge(test: str, entry: Listed, failed: int, plans: list[Compared]) -> list[str]:
    if failed != entry.fails:
        stale = "" if failed else ", so it is to be taken out"
        return [f"{test} fails {failed} times, {entry.fails} are listed{stale}"]
    if not plans:
        return [f"{test} is listed, but no plan of it was compared"]
    if entry.kind == RACKS:
        plans = _refused(plans)
    first = next((text for plan in plans if (text := FAULTS[entry.kind](plan))), "")
    if not first and entry.kind != ORDER and all(plan.same for plan in plans):
        first = "all of its plans are Kafka's"
    return [f"{test} is listed, but {first}"] if first else []


def _refused(plans: list[Compared]) -> list[Compared]:
    """The last plan of each run: the test asserts something of every plan, and ended with this one."""
    return list({plan.name: plan for plan in plans}.values())


def _another(plan: Compared) -> str:
    if plan.same:
        return ""
    return f"as a matter of order, and a plan is another one ({worse(plan.own, plan.theirs) or 'as good'})"


def _worse(plan: Compared) -> str:
    text = worse(plan.own, plan.theirs)
    return f"a plan is worse than Kafka's: {text}" if text else ""


def _worse_later(plan: Compared) -> str:
    if plan.same:
        return ""
    if plan.at_rest is None:
        return "nobody looked what a plan comes to"
    own, theirs = plan.at_rest
    text = worse(own, theirs)
    if not text and own["moves"] >= theirs["moves"]:
        text = "no fewer moves"
    return f"a plan comes to something worse than Kafka's: {text}" if text else ""


def _no_more_racks(plan: Compared) -> str:
    own, theirs = plan.own.get(SHARED, 0), plan.theirs.get(SHARED, 0)
    return _worse(plan) or ("" if own < theirs else "the copies of a plan are on no more racks than Kafka's")


SHARED = "shared racks"
FAULTS: Mapping[str, Callable[[Compared], str]] = {
    ORDER: _another,
    CHOICE: _worse,
    LATER: _worse_later,
    RACKS: _no_more_racks,
}
