"""Whether a group can be converted, how, and what its broker's assignor would make of it."""

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.assessment import ConversionPlan, plan_conversion
from bellwether_kafka.coordinator.assessment.model import PolicyRow
from bellwether_kafka.coordinator.observation import Finding, Level, Observation, Shadow
from tests.kit.observed import PRICES, READY, crossed
from tests.kit.streams import settled_application

STOP_FIRST = "Stop all members first, and start them with the protocol."

DENIED = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def planned(**changes: Any) -> ConversionPlan:
    return plan_conversion(replace(READY, **changes), PRICES)


def check(plan: ConversionPlan, name: str) -> Finding:
    (only,) = [check for check in plan.checks if check.kind == name]
    return only


def row(plan: ConversionPlan, policy: str) -> PolicyRow:
    (only,) = [row for row in plan.policies if row.policy == policy]
    return only


def test_a_group_that_is_ready_has_steps_and_its_racks_beside_those_of_a_broker() -> None:
    plan = planned()
    assert (plan.to, plan.converted) == ("consumer", False)
    assert all(check.level is not Level.FAIL for check in plan.checks), plan.checks
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
        ({"broker_version": (3, 9)}, "brokers", Level.FAIL, "needs 4.0"),
        ({"broker_version": ()}, "brokers", Level.WARN, "not known"),
        ({"migration": {1: "disabled"}}, "migration", Level.WARN, "is disabled"),
        ({"migration": {1: "upgrade"}}, "migration", Level.PASS, "and not back"),
        ({"migration": {1: "bidirectional", 2: DENIED}}, "migration", Level.WARN, "not known"),
        ({"migration": {}}, "migration", Level.WARN, "not known"),
        ({"blocked": True}, "assignments", Level.FAIL, 'online_conversion = "block"'),
        ({"obstacles": None}, "assignments", Level.WARN, "not stable"),
        ({"obstacles": ("a has userData",)}, "assignments", Level.FAIL, "a has userData"),
    ],
)
def test_what_prevents_it_is_named(changes: dict[str, Any], name: str, verdict: Level, words: str) -> None:
    prevented = check(planned(**changes), name)
    assert (prevented.level, words in prevented.message) == (verdict, True), prevented
    assert bool(prevented.remedy) == (verdict is not Level.PASS)


def test_rows_of_a_broker_name_the_release_whose_assignors_they_are() -> None:
    rows = planned(seen=replace(crossed(), broker_version=(4, 3))).policies
    assert {row.policy: row.release for row in rows if row.release} == {"broker-uniform": "4.3", "broker-range": "4.3"}
    assert {policy.release for policy in planned().policies} == {"", "4.4"}, "the newest if the brokers' is not known"


@pytest.mark.slow
def test_an_application_is_compared_as_after_a_stop_of_all_its_instances() -> None:
    """From 4.4 on a broker gives tasks to processes with their state, up to 4.3 to any."""
    decision, _ = settled_application("az1", "az2", "az3")
    shadow = Shadow.of(decision, decision.plan.owner)
    seen = Observation("app", "classic", "Stable", "stream", 0, shadow=shadow)
    moves = [
        row(planned(seen=replace(seen, broker_version=version)), "broker-sticky").moves for version in ((4, 3), (4, 4))
    ]
    assert moves == [16, 8], "of 24, of which those without state are placed anew"


def test_a_group_whose_broker_assigns_has_only_a_way_back() -> None:
    plan = planned(seen=replace(crossed(), kind="consumer", protocol="uniform"))
    assert (plan.converted, plan.steps) == (True, ())
    assert [(check.kind, check.level) for check in plan.checks] == [
        ("group", Level.PASS),
        ("way back", Level.WARN),
    ]
    assert "group.protocol=classic" in plan.way_back[0]


def test_a_conversion_that_was_interrupted_names_the_members_that_are_left_and_goes_on() -> None:
    """It passed as converted, without a step, while two of its members had the classic protocol."""
    seen = replace(READY.seen, kind="consumer")
    left = list(seen.members)[:2]
    plan = planned(seen=replace(seen, classic_members=frozenset(member.member_id for member in left)))
    verdict = check(plan, "group")
    assert verdict.level is Level.WARN
    assert f"2 of {len(seen.members)} members have the classic protocol" in verdict.message
    assert all((member.instance_id or member.client_id) in verdict.message for member in left)
    assert verdict.remedy
    assert plan.steps[0].startswith("Restart the others")


def test_an_application_is_stopped_before_it_is_converted() -> None:
    plan = planned(seen=replace(crossed("shop's"), protocol="stream", shadow=None))
    assert plan.to == "streams"
    assert [check.kind for check in plan.checks] == ["brokers", "features", "clients"]
    assert plan.steps[0].startswith("Stop all instances")
    assert "bellwether release 'shop'\"'\"'s'" in plan.steps[1]
    assert planned(seen=replace(crossed(), protocol="stream"), led=False).steps[1].startswith("Start all instances")


def test_a_group_without_members_is_converted_by_the_first_that_joins() -> None:
    """Of such a group it was said that it is not stable, and one of its members was to be restarted."""
    empty = replace(crossed(), state="Empty", members=(), shadow=None)
    plan = planned(seen=empty, obstacles=None)
    assert (check(plan, "assignments").level, plan.to) == (Level.PASS, "consumer")
    assert plan.steps[0].startswith("Free the group")
    assert plan.steps[1].startswith("Start all members with group.protocol=consumer")
    application = planned(seen=empty, obstacles=None, application=True, led=False)
    assert application.to == "streams"
    assert application.steps[0].startswith("Start all instances with group.protocol=streams")


@pytest.mark.parametrize("changes", [{"migration": {1: "downgrade"}}, {"obstacles": ("a has userData",)}])
def test_a_group_that_the_broker_would_not_convert_while_it_runs_is_stopped_first(changes: dict[str, Any]) -> None:
    """The steps restarted one member, which the broker refuses."""
    steps = planned(**changes).steps
    assert steps[0] == "Stop all members, and wait until the group is empty."
    assert "bellwether release" in steps[1]
    assert steps[2] == "Start all members with group.protocol=consumer. Offsets stay."


def test_a_conversion_that_bellwether_blocks_begins_with_the_setting_that_allows_it() -> None:
    steps = planned(blocked=True).steps
    assert steps[0].startswith('Set online_conversion = "allow"')
    assert steps[1].startswith("Restart one member")


def test_what_else_prevents_a_blocked_conversion_is_named_beside_the_block() -> None:
    """Only the setting was named; after it was changed the broker refused."""
    plan = planned(blocked=True, obstacles=("the subscription of a does not parse",))
    assert [word in check(plan, "assignments").message for word in ("online_conversion", "does not parse")] == [
        True
    ] * 2
    assert [word in check(plan, "assignments").remedy for word in ('"allow"', "Stop all")] == [True] * 2
    assert plan.steps[1].startswith("Stop all members")


@pytest.mark.slow
def test_the_way_back_follows_the_policy_of_the_brokers() -> None:
    """With upgrade a group whose members were restarted one by one stayed as it was."""
    converted = replace(crossed(), kind="consumer", protocol="uniform")
    (step,) = planned(seen=converted, migration={1: "bidirectional", 2: "upgrade"}).way_back
    assert step.startswith(
        "Stop all members, wait until the group is empty, and start them with group.protocol=classic"
    )
    for policy in ("bidirectional", "downgrade"):
        assert planned(seen=converted, migration={1: policy}).way_back[0].startswith("Restart the members one after")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when_empty", "how"), [(False, "one after another (bellwether doctor g"), (True, "all at once:")]
)
@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_the_way_back_ends_with_the_restarts_that_the_lead_needs(kind: str, when_empty: bool, how: str) -> None:
    """Of an application under exactly_once_v2 it was said that Bellwether leads it again, which needs a restart."""
    converted = replace(crossed(), kind=kind, protocol="")
    assert planned(seen=converted).way_back[-1].endswith("and Bellwether leads it again.")
    steps = planned(seen=converted, waits=True, when_empty=when_empty).way_back
    assert steps[-1].startswith(f"Restart them once more, {how}")
    assert not any("leads it again" in step for step in steps)
    assert not any("once more" in step for step in planned(seen=converted, waits=True, led=False).way_back)


@pytest.mark.parametrize(
    ("listing", "verdict", "words"),
    [
        ({1: "uniform,range", 2: "uniform"}, Level.PASS, "by uniform, the first of group.consumer.assignors"),
        ({1: "org.apache.kafka.coordinator.group.assignor.RangeAssignor"}, Level.PASS, "assigns by range"),
        ({1: "bellwether.broker.RackFirstAssignor,uniform"}, Level.PASS, "assigns by bellwether-rack-first"),
        ({1: "com.example.Ours"}, Level.PASS, "assigns by com.example.Ours"),
        ({1: "bellwether.broker.BellwetherAssignor", 2: "uniform"}, Level.WARN, "differs between brokers: bell"),
    ],
)
def test_the_assignor_of_the_broker_is_named(listing: dict[int, str], verdict: Level, words: str) -> None:
    examined = check(planned(assignors=listing), "assignor")
    assert (examined.level, words in examined.message) == (verdict, True), examined


@pytest.mark.slow
def test_an_assignor_of_brokers_that_is_not_known_is_not_named() -> None:
    for listing in ({}, {1: "uniform", 2: DENIED}, {1: None}):
        assert not [check for check in planned(assignors=listing).checks if check.kind == "assignor"]


def test_what_keeps_an_application_from_starting_with_the_protocol_is_named() -> None:
    seen = replace(crossed(), protocol="stream", shadow=None)
    tasks = {1: "bellwether.broker.BellwetherTaskAssignor,sticky"}
    assert (
        "assigns by bellwether, the first of group.streams"
        in check(planned(seen=seen, assignors=tasks), "assignor").message
    )
    assert check(planned(seen=seen, patterns=True), "application").level is Level.FAIL
    static = replace(seen, members=(replace(seen.members[0], instance_id="a-1"), *seen.members[1:]))
    verdict = check(planned(seen=static), "application")
    assert (verdict.level, "(a-1), with which Kafka Streams starts from 4.4 on only" in verdict.message) == (
        Level.WARN,
        True,
    )


@pytest.mark.parametrize("kind", ["other", "unknown"])
def test_other_groups_are_not_converted(kind: str) -> None:
    """A share group and a cluster of Kafka Connect had steps to convert them, too."""
    plan = planned(seen=replace(crossed(), kind=kind, trouble="it is of type connect"))
    assert [check.level for check in plan.checks] == [Level.FAIL]
    assert (plan.steps, plan.way_back) == ((), ())
    assert STOP_FIRST not in plan.checks[0].remedy


@pytest.mark.parametrize(
    ("features", "verdict", "words"),
    [
        ({"metadata.version": 27}, Level.FAIL, "finalized at level 0"),
        ({"group.version": 0, "streams.version": 0}, Level.FAIL, "UNSUPPORTED_VERSION"),
        ({"group.version": 1, "streams.version": 1}, Level.PASS, "level 1"),
        (None, Level.WARN, "not known"),
    ],
)
@pytest.mark.parametrize(("protocol", "feature"), [("range", "group.version"), ("stream", "streams.version")])
def test_a_cluster_whose_feature_is_not_finalized_does_not_pass(
    protocol: str, feature: str, features: dict[str, int] | None, verdict: Level, words: str
) -> None:
    """Brokers of 4.x refuse the protocol while the feature is at level 0, as after an upgrade; all checks passed."""
    examined = check(planned(seen=replace(crossed(), protocol=protocol, shadow=None), features=features), "features")
    assert (examined.level, words in examined.message, feature in examined.message) == (verdict, True, True)
    assert ("kafka-features.sh" in examined.remedy) == (verdict is not Level.PASS)


@pytest.mark.parametrize(
    ("release", "verdict", "named"),
    [
        ((4, 2), Level.WARN, True),
        ((4, 2, 0), Level.FAIL, True),
        ((4, 2, 1), Level.PASS, False),
        ((4, 3), Level.PASS, False),
        ((4, 4, 0), Level.PASS, False),
    ],
)
def test_an_application_is_not_converted_by_brokers_of_4_2_0(
    release: tuple[int, ...], verdict: Level, *, named: bool
) -> None:
    """KAFKA-20254. Brokers do not show their patch level, so 4.2 without one is no pass."""
    examined = check(
        planned(seen=replace(crossed(), protocol="stream", shadow=None), broker_version=release), "brokers"
    )
    assert examined.level is verdict
    assert ("KAFKA-20254, mended in 4.2.1" in examined.message) == named
    assert ("4.2.1" in examined.remedy) == named


@pytest.mark.parametrize(
    ("release", "named"),
    [
        *(((4, 0), True), ((4, 2, 9), True), ((4, 3), True), ((4, 3, 2), True), ((4, 3, 3), False)),
        *(((4, 4), True), ((4, 4, 0), True), ((4, 4, 1), False), ((4, 5), False), ((), False)),
    ],
)
@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_what_a_way_back_leaves_behind_at_the_broker_is_named(
    kind: str, release: tuple[int, ...], *, named: bool
) -> None:
    """KAFKA-21176, mended in 4.3.3 and 4.4.1."""
    plan = planned(seen=replace(crossed(), kind=kind), broker_version=release)
    said = [c for c in plan.checks if "KAFKA-21176" in c.message]
    assert [c.level for c in said] == [Level.WARN] * named
    assert all("4.3.3" in c.remedy and "4.4.1" in c.remedy for c in said)


def test_limits_of_members_are_compared_in_both_directions() -> None:
    """Each protocol has a limit of its own: a group of 500 was refused by group.consumer.max.size = 400."""
    size = len(crossed().members)
    sizes = {"group.consumer.max.size": {1: str(size - 1), 2: "1000"}, "group.max.size": {1: "1000", 2: str(size - 1)}}
    plan = planned(sizes_max=sizes)
    assert check(plan, "group size").level is Level.FAIL
    assert f"group.consumer.max.size is {size - 1}" in check(plan, "group size").message
    assert f"group.max.size is {size - 1}: brokers refuse the way back" in check(plan, "way back").message
    fits = planned(sizes_max={name: {1: str(size), 2: None, 3: DENIED} for name in sizes})
    assert not [c for c in fits.checks if c.kind == "group size" or "max.size" in c.message]
    streams = planned(
        seen=replace(crossed(), protocol="stream", shadow=None), sizes_max={"group.streams.max.size": {1: "1"}}
    )
    assert "group.streams.max.size is 1" in check(streams, "group size").message


@pytest.mark.parametrize(("protocol", "to"), [("range", "consumer"), ("stream", "streams")])
def test_what_a_crash_costs_static_members_is_said(protocol: str, to: str) -> None:
    """The successor of a crashed static member is refused until the session ends; not a word was said."""
    seen = replace(crossed(), protocol=protocol, shadow=None)
    static = replace(seen, members=(replace(seen.members[0], instance_id="a-1"), *seen.members[1:]))
    said = check(planned(seen=static), "static members")
    assert (said.level, "(a-1)" in said.message) == (Level.WARN, True)
    assert "UNRELEASED_INSTANCE_ID" in said.message
    assert f"group.{to}.session.timeout.ms" in said.message
    assert not [c for c in planned(seen=seen).checks if c.kind == "static members"]


def test_no_fault_hides_another() -> None:
    """Of several faults in one check only the first was shown."""
    both = check(planned(migration={1: "disabled", 2: DENIED}), "migration")
    assert ("is disabled" in both.message, "not known" in both.message) == (True, True)
    seen = replace(crossed(), protocol="stream", shadow=None)
    static = replace(seen, members=(replace(seen.members[0], instance_id="a-1"), *seen.members[1:]))
    application_ = check(planned(seen=static, patterns=True), "application")
    assert application_.level is Level.FAIL
    assert application_.message.index("by a pattern") < application_.message.index("a-1"), "the worst first"
