"""What `plan --out` writes, and that the digest follows the state of the group."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.cli.output import Exit
from bellwether_kafka.coordinator.cli.plan_file import FORMAT, GroupStateOfPlan, PlanFile, plan_file
from tests.support.embedded_brokers import EmbeddedCluster
from tests.unit.coordinator.cli.documented import undocumented
from tests.unit.coordinator.cli.in_process import bellwether
from tests.unit.coordinator.cli.test_every_command import Described, brokers  # noqa: F401 - a fixture
from tests.unit.coordinator.observation.test_absence_cost import application
from tests.unit.coordinator.web.test_observed import SKEWED


def written() -> PlanFile:
    assert SKEWED.shadow is not None
    return plan_file(SKEWED, SKEWED.shadow, "0.2.0")


def test_it_has_the_state_and_the_planned_owners() -> None:
    plan = written()
    assert (plan.format, plan.version, plan.policy) == (FORMAT, "0.2.0", "rack-first")
    assert [(m.member_id, m.client_id, m.topics) for m in plan.before.members] == [
        ("a-1", "a", ("orders",)),
        ("b-1", "b", ("orders",)),
        ("c-1", "c", ("orders",)),
    ]
    assert plan.before.partitions == {"orders": 4}
    assert plan.before.owners == {"orders-0": "b-1", "orders-1": "a-1", "orders-2": "b-1", "orders-3": "b-1"}
    assert plan.owners == {"orders-0": "c-1", "orders-1": "b-1", "orders-2": "a-1", "orders-3": "b-1"}
    assert plan.digest == plan.before.digest


def test_the_digest_is_the_same_in_whichever_order_the_broker_lists_members() -> None:
    assert SKEWED.shadow is not None
    reversed_members = replace(SKEWED, members=SKEWED.members[::-1])
    assert plan_file(reversed_members, SKEWED.shadow, "0.2.0").digest == written().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda state: replace(state, members=state.members[1:]),
        lambda state: replace(state, members=(replace(state.members[0], topics=("other",)), *state.members[1:])),
        lambda state: replace(state, partitions={"orders": 5}),
        lambda state: replace(state, owners={**state.owners, "orders-0": "a-1"}),
        lambda state: replace(state, group="another"),
    ],
    ids=["members", "subscriptions", "partitions", "owners", "group"],
)
def test_the_digest_changes_with_the_state(change: Callable[[GroupStateOfPlan], GroupStateOfPlan]) -> None:
    assert change(written().before).digest != written().digest


def test_owners_of_tasks_are_processes() -> None:
    decision = application(t0=1000)
    assert SKEWED.shadow is not None
    shadow = replace(SKEWED.shadow, decision=decision, present=decision.plan.before)
    plan = plan_file(SKEWED, shadow, "0.2.0")
    assert set(plan.owners.values()) <= {owner.name for owner in decision.plan.owners}
    assert all("_" in task for task in plan.owners)
    assert plan.owners


def test_a_plan_agrees_with_the_published_schema() -> None:
    assert not undocumented("plan-file", json.loads(json.dumps(asdict(written()))))


@pytest.mark.embedded
def test_the_command_writes_the_file_beside_its_output(
    brokers: EmbeddedCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(kafka, "Transport", Described)
    file = tmp_path / "plan.json"
    words = ("plan", "stable", "--bootstrap", brokers.bootstrap, "-o", "json", "--out")
    ended = bellwether(*words, str(file))
    assert ended.returncode == Exit.DONE, ended.stderr
    document = json.loads(file.read_text(encoding="utf-8"))
    assert not undocumented("plan-file", document)
    assert document["before"]["owners"] == {f"orders-{partition}": "m1" for partition in range(3)}
    assert document["digest"][:16] in ended.stderr
    assert json.loads(ended.stdout)["group"] == "stable"
    refused = bellwether(*words, str(tmp_path / "no" / "plan.json"))
    assert refused.returncode == Exit.INPUT
    assert "check --out" in refused.stderr


def test_one_file_is_not_written_again_and_again() -> None:
    ended = bellwether("plan", "g", "--bootstrap", "127.0.0.1:1", "--watch", "--out", "plan.json")
    assert ended.returncode == Exit.INPUT
    assert "--out" in ended.stderr
