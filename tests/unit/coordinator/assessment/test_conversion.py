"""Whether a group can be converted, how, and what its broker's assignor would make of it."""

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.assessment.conversion import (
    STOP_FIRST,
    ConversionFacts,
    ConversionPlan,
    plan_conversion,
)
from bellwether_kafka.coordinator.assessment.model import PolicyRow
from bellwether_kafka.coordinator.observation.health import Check, CheckVerdict
from bellwether_kafka.coordinator.observation.observation import Observation, shadow_of
from tests.unit.assignors.streams.test_whatif import application
from tests.unit.coordinator.assessment.test_assess import PRICES, crossed

READY = ConversionFacts(
    seen=crossed(), obstacles=(), led=True, broker_version=(4, 3), migration={1: "BIDIRECTIONAL", 2: "bidirectional"}
)
DENIED = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def planned(**changes: Any) -> ConversionPlan:
    return plan_conversion(replace(READY, **changes), PRICES)


def check(plan: ConversionPlan, name: str) -> Check:
    (one,) = [check for check in plan.checks if check.name == name]
    return one


def row(plan: ConversionPlan, policy: str) -> PolicyRow:
    (one,) = [row for row in plan.policies if row.policy == policy]
    return one


def test_a_group_that_is_ready_has_steps_and_its_racks_beside_those_of_a_broker() -> None:
    plan = planned()
    assert (plan.to, plan.converted) == ("consumer", False)
    assert all(check.verdict is not CheckVerdict.FAIL for check in plan.checks), plan.checks
    now, broker, own = (row(plan, policy).measures for policy in ("now", "broker-uniform", "rack-first"))
    assert now is not None
    assert broker is not None
    assert own is not None
    assert (now.cross_rack, broker.cross_rack, own.cross_rack) == (4, 4, 0), "a broker keeps what it finds"
    assert (row(plan, "broker-uniform").moves, row(plan, "rack-first").moves) == (0, 4)
    assert "Bellwether leaves it" in plan.steps[0]
    assert "leads it again" in plan.way_back[-1]


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "words"),
    [
        ({"broker_version": (3, 9)}, "brokers", CheckVerdict.FAIL, "needs 4.0"),
        ({"broker_version": ()}, "brokers", CheckVerdict.WARN, "not known"),
        ({"migration": {1: "disabled"}}, "migration", CheckVerdict.WARN, "is disabled"),
        ({"migration": {1: "upgrade"}}, "migration", CheckVerdict.PASS, "and not back"),
        ({"migration": {1: "bidirectional", 2: DENIED}}, "migration", CheckVerdict.WARN, "not known"),
        ({"migration": {}}, "migration", CheckVerdict.WARN, "not known"),
        ({"blocked": True}, "assignments", CheckVerdict.FAIL, 'online_conversion = "block"'),
        ({"obstacles": None}, "assignments", CheckVerdict.WARN, "not stable"),
        ({"obstacles": ("a has userData",)}, "assignments", CheckVerdict.FAIL, "a has userData"),
    ],
)
def test_what_prevents_it_is_named(changes: dict[str, Any], name: str, verdict: CheckVerdict, words: str) -> None:
    one = check(planned(**changes), name)
    assert (one.verdict, words in one.message) == (verdict, True), one
    assert bool(one.remedy) == (verdict is not CheckVerdict.PASS)


def test_rows_of_a_broker_name_the_release_whose_assignors_they_are() -> None:
    rows = planned(seen=replace(crossed(), broker_version=(4, 3))).policies
    assert {one.policy: one.release for one in rows if one.release} == {"broker-uniform": "4.3", "broker-range": "4.3"}
    assert {one.release for one in planned().policies} == {"", "4.4"}, "the newest if the brokers' is not known"


def test_an_application_is_compared_as_after_a_stop_of_all_its_instances() -> None:
    """From 4.4 on a broker gives tasks to processes with their state, up to 4.3 to any."""
    decision, _ = application("az1", "az2", "az3")
    shadow = shadow_of(decision, decision.plan.owner)
    seen = Observation("app", "classic", "Stable", "stream", 0, shadow=shadow)
    moves = [
        row(planned(seen=replace(seen, broker_version=version)), "broker-sticky").moves for version in ((4, 3), (4, 4))
    ]
    assert moves == [16, 8], "of 24, of which those without state are placed anew"


def test_a_group_whose_broker_assigns_has_only_a_way_back() -> None:
    plan = planned(seen=replace(crossed(), kind="consumer", protocol="uniform"))
    assert (plan.converted, plan.steps) == (True, ())
    assert [check.verdict for check in plan.checks] == [CheckVerdict.PASS]
    assert "group.protocol=classic" in plan.way_back[0]


def test_a_conversion_that_was_interrupted_names_the_members_that_are_left_and_goes_on() -> None:
    """It passed as converted, without a step, while two of its members had the classic protocol."""
    seen = replace(READY.seen, kind="consumer")
    left = list(seen.members)[:2]
    plan = planned(seen=replace(seen, classic_members=frozenset(member.member_id for member in left)))
    one = check(plan, "group")
    assert one.verdict is CheckVerdict.WARN
    assert f"2 of {len(seen.members)} members have the classic protocol" in one.message
    assert all((member.instance_id or member.client_id) in one.message for member in left)
    assert one.remedy
    assert plan.steps[0].startswith("Restart the others")


def test_an_application_is_stopped_before_it_is_converted() -> None:
    plan = planned(seen=replace(crossed("shop's"), protocol="stream", shadow=None))
    assert plan.to == "streams"
    assert [check.name for check in plan.checks] == ["brokers", "clients"]
    assert plan.steps[0].startswith("Stop all instances")
    assert "bellwether release 'shop'\"'\"'s'" in plan.steps[1]
    assert planned(seen=replace(crossed(), protocol="stream"), led=False).steps[1].startswith("Start all instances")


def test_other_groups_are_not_converted() -> None:
    plan = planned(seen=replace(crossed(), kind="other", trouble="it is of type connect"))
    assert [check.verdict for check in plan.checks] == [CheckVerdict.FAIL]
    assert STOP_FIRST not in plan.checks[0].remedy
