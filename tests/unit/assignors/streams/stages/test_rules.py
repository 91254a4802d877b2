"""Which processes may have which tasks under operators' rules, and what that costs for an applied plan."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import BoolArray, Rule
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, ProcessView, StreamsView, TaskTable
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import StageConfigs, means
from bellwether_kafka.assignors.streams.stages import rules as stage
from bellwether_kafka.assignors.streams.stages.rules import allowed_by
from tests.kit.streams_views import RACKS, Application, Instance, process_id, random_application
from tests.seeds import seeds

ITEMS = (
    "*",
    "0",
    "1",
    "4",
    "0_0",
    "0_1",
    "1_0",
    "1_3",
    "2_2",
    "0_99",
    "9",
    "1_",
    "orders",
    "0_x",
    f"{2**31}_0",
    "9" * 18,
)


def names(item: str, subtopology: int, partition: int) -> bool:
    return item in ("*", f"{subtopology}", f"{subtopology}_", f"{subtopology}_{partition}")


def allowed_by_each_rule(view: StreamsView, rules: Sequence[Rule]) -> BoolArray:
    """The definition: every rule on its own, task by task, those of an applied plan last."""
    processes = range(view.size)
    allowed = [set(processes) for _ in range(view.tasks.size)]
    for rule in sorted(rules, key=lambda rule: rule.kind == "plan"):
        meant = {p for p in processes if means(view.processes[p], rule.where)}
        for task, may in enumerate(allowed):
            if not meant or not names(rule.item, *view.tasks.task_id(task)[:2]):
                continue
            if rule.kind != "plan" or may & meant:
                allowed[task] = may - meant if rule.kind == "ban" else may & meant
    return np.array([[p in may for p in processes] for may in allowed], dtype=np.bool_)


def random_rules(random: Random, view: StreamsView) -> list[Rule]:
    """Rules that contradict each other, name the same task twice, or refer to nothing."""
    places = [f"rack:{rack}" for rack in RACKS[:2]] + ["member:nobody", "rack:moon"]
    places += [f"member:{process.process_id}" for process in view.processes[:3]]
    kinds = random.choice([("plan",), ("pin", "ban", "plan", "plan")])
    return [
        Rule(random.choice(kinds), random.choice(ITEMS), random.choice(places)) for _ in range(random.randrange(12))
    ]


@pytest.mark.parametrize("seed", seeds(200))
def test_rules_that_are_joined_allow_what_each_of_them_allows(seed: int) -> None:
    random = Random(seed)
    application, _ = random_application(random)
    for instance in application.instances:
        instance.rack = random.choice(RACKS[:2])
    view = application.view()
    for _ in range(5):
        rules = random_rules(random, view)
        assert (allowed_by(view, rules) == allowed_by_each_rule(view, rules)).all(), rules


def test_an_applied_plan_costs_one_pass_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, processes = 300, 4
    view = Application([(tasks, 100)], [Instance(process_id(n + 1)) for n in range(processes)]).view()
    plan = [
        Rule("plan", f"0_{task}", f"member:{process.process_id}")
        for p, process in enumerate(view.processes)
        for task in range(p, tasks, processes)
    ]
    passes, named = [], stage._named

    def counted(table: TaskTable, *items: str) -> BoolArray:
        passes.append(items)
        return named(table, *items)

    monkeypatch.setattr(stage, "_named", counted)
    allowed = allowed_by(view, plan)
    assert (np.flatnonzero(allowed) == np.arange(tasks) * processes + np.arange(tasks) % processes).all()
    assert len(passes) == processes


def test_a_plan_asks_once_which_processes_a_rule_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step asked again: a plan of 1,000 processes and 500 pins took four times as long as before there were
    limits of the placement."""
    processes = 4
    application = Application([(6, 100)], [Instance(process_id(n + 1)) for n in range(processes)])
    pins = tuple(Rule("pin", f"0_{n}", f"member:{process_id(n + 1)}") for n in range(processes))
    asked, meant = [], stage.means

    def counted(process: ProcessView, where: str) -> bool:
        asked.append(where)
        return meant(process, where)

    monkeypatch.setattr(stage, "means", counted)
    plan = assign_streams(application.view(), AssignmentConfigs(), STREAMS_HA, StageConfigs(rules=pins))
    assert plan.active.tolist()[:processes] == list(range(processes))
    assert len(asked) == processes * len(pins)
