"""The outcome of a run of Kafka's unit tests on the screen."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab.kafka.run import Case, Ran
from tests.lab.kafka.verdicts import Differing, worse


@dataclass(frozen=True, slots=True)
class Result:
    """One run: simple names of the classes, what came out, and what is listed."""

    release: str
    policy: str
    classes: tuple[str, ...]
    ran: Ran
    reported: Differing

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
        if case.failure and (case.test_class, case.method) not in result.reported:
            print(f"  {case.test_class}.{case.method} {case.name}: {case.failure[:300]}")
    print(f"{'all':46} {len(cases):6} {_asked(cases):6} {_passed(cases):6}")
    plans = result.ran.compared
    same, bad = sum(plan.same for plan in plans), sum(bool(worse(plan.own, plan.theirs)) for plan in plans)
    print(
        f"plans beside Kafka's: {len(plans)}, the same {same}, as good or better {len(plans) - same - bad}, worse {bad}"
    )


def _asked(cases: Sequence[Case]) -> int:
    return sum(case.asked > 0 for case in cases)


def _passed(cases: Sequence[Case]) -> int:
    return sum(not case.failure for case in cases)
