"""Standbys by load and by client tags (after the descriptions of Kafka's tests of KIP-708)."""

from collections.abc import Sequence

import pytest

from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, StreamsPlan
from bellwether_kafka.assignors.streams.placing import (
    LabelRule,
    Placement,
    StandbyRule,
    assign_high_availability,
    rack_disagreement,
    tag_rule,
)
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from tests.kit.streams_views import Application, Instance, process_id

ZONES = ("zone",)
BOTH = ("zone", "cluster")


def tagged(tags: Sequence[dict[str, str]], tasks: int = 6, threads: int = 1) -> Application:
    application = Application([(tasks, 1000)])
    application.instances = [Instance(process_id(n + 1), threads, tags=mine) for n, mine in enumerate(tags)]
    return application


def zones(*names: str) -> list[dict[str, str]]:
    return [{"zone": name} for name in names]


def holders(plan: StreamsPlan, task: int) -> list[int]:
    return [int(plan.active[task]), *plan.standby_process[plan.standby_task == task].tolist()]


def plan_of(application: Application, replicas: int, tags: tuple[str, ...]) -> StreamsPlan:
    configs = AssignmentConfigs(num_standby_replicas=replicas, rack_aware_assignment_tags=tags)
    return assign_high_availability(application.view(), configs)


def test_replicas_are_in_different_zones() -> None:
    tags = zones("a", "a", "a", "b", "b", "b", "c", "c", "c")
    plan = plan_of(tagged(tags, 9), 2, ZONES)
    for task in range(9):
        assert {tags[p]["zone"] for p in holders(plan, task)} == {"a", "b", "c"}
    counts = [plan.standby_process.tolist().count(p) for p in range(9)]
    assert max(counts) - min(counts) <= 1


def test_replicas_differ_in_both_tags_where_that_is_possible() -> None:
    """Three zones and two clusters: the first standby can differ in both, the second only in its zone."""
    tags = [{"zone": zone, "cluster": cluster} for cluster in "xy" for zone in "abc"]
    plan = plan_of(tagged(tags), 1, BOTH)
    for task in range(6):
        active, standby = holders(plan, task)
        assert tags[active]["zone"] != tags[standby]["zone"]
        assert tags[active]["cluster"] != tags[standby]["cluster"]
    two = plan_of(tagged(tags), 2, BOTH)
    for task in range(6):
        assert {tags[p]["zone"] for p in holders(two, task)} == {"a", "b", "c"}
        assert {tags[p]["cluster"] for p in holders(two, task)} == {"x", "y"}


def test_more_replicas_than_zones_go_to_the_least_loaded() -> None:
    tags = zones("a", "a", "b", "b")
    plan = plan_of(tagged(tags, 4), 2, ZONES)
    for task in range(4):
        assert len(set(holders(plan, task))) == 3
        assert {tags[p]["zone"] for p in holders(plan, task)} == {"a", "b"}


def test_one_zone_is_as_good_as_none() -> None:
    plan = plan_of(tagged(zones("a", "a", "a")), 2, ZONES)
    assert len(plan.standby_task) == 12


def test_processes_without_tags_take_part() -> None:
    plan = plan_of(tagged([{}, {"zone": "a"}, {"zone": "b"}]), 1, ZONES)
    assert len(plan.standby_task) == 6


def test_tags_that_are_not_configured_do_not_count() -> None:
    tags = [{"zone": "a", "disk": "1"}, {"zone": "a", "disk": "2"}, {"zone": "b", "disk": "1"}]
    plan = plan_of(tagged(tags), 1, ZONES)
    for task in range(6):
        assert {tags[p]["zone"] for p in holders(plan, task)} == {"a", "b"}


def test_without_configured_tags_only_load_counts() -> None:
    view = tagged(zones("a", "b")).view()
    assert type(tag_rule(view, AssignmentConfigs())) is StandbyRule
    assert type(tag_rule(view, AssignmentConfigs(rack_aware_assignment_tags=ZONES))) is LabelRule


class TestMayMove:
    def rule(self, tags: Sequence[dict[str, str]]) -> tuple[LabelRule, Placement]:
        view = tagged(tags).view()
        rule = tag_rule(view, AssignmentConfigs(rack_aware_assignment_tags=ZONES))
        assert isinstance(rule, LabelRule)
        place = Placement(view)
        place.active[0] = 0
        place.add_standby(0, 1)
        return rule, place

    def test_between_processes_with_equal_tags_only(self) -> None:
        rule, _ = self.rule([{"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {"zone": "a", "disk": "1"}, {}])
        assert rule.may_move(0, 1)
        assert not rule.may_move(0, 2)
        assert rule.may_move(0, 3)
        assert not rule.may_move(3, 0), "the source has a tag that the destination lacks"
        assert rule.may_move(4, 2)

    def test_one_task_if_its_holders_stay_as_different(self) -> None:
        rule, place = self.rule(zones("a", "b", "c", "a"))
        assert rule.may_move_task(1, 2, 0, place)
        assert not rule.may_move_task(1, 3, 0, place)

    def test_a_task_whose_holders_are_not_different_may_move_anywhere(self) -> None:
        rule, place = self.rule(zones("a", "a", "b", "a"))
        assert rule.may_move_task(1, 3, 0, place)
        assert rule.may_move_task(1, 2, 0, place)


class TestRacksWithoutTags:
    """KIP-925: the rack of the clients spreads standbys where no tags do. Shipped Kafka does not."""

    def racked(self, racks: str, tasks: int = 6) -> Application:
        application = Application([(tasks, 1000)])
        application.instances = [Instance(process_id(n + 1), rack=rack) for n, rack in enumerate(racks)]
        return application

    def plan_of(self, application: Application, replicas: int) -> StreamsPlan:
        return assign_streams(application.view(), AssignmentConfigs(100, num_standby_replicas=replicas), STREAMS_HA)

    @pytest.mark.parametrize("racks", ["aabbcc", "abcabc", "aaaabc"])
    def test_replicas_are_in_different_racks(self, racks: str) -> None:
        plan = self.plan_of(self.racked(racks), 2)
        for task in range(6):
            assert {racks[p] for p in holders(plan, task)} == {"a", "b", "c"}

    def test_a_warm_group_keeps_standbys_that_are_spread(self) -> None:
        application = self.racked("aabbcc")
        first = self.plan_of(application, 1)
        application.settle(first)
        second = self.plan_of(application, 1)
        assert (second.standby_process == first.standby_process).all()
        assert not second.probing

    def test_a_standby_in_the_rack_of_its_active_task_moves_once_another_rack_has_caught_up(self) -> None:
        application = self.racked("aab", 1)
        first, second, _ = application.instances
        first.lags, first.active = {0: LATEST_OFFSET}, [0]
        second.lags, second.standby = {0: 0}, [0]
        plan = self.plan_of(application, 1)
        assert holders(plan, 0) == [0, 1, 2], "the old standby stays until the new one has caught up"
        assert plan.probing
        application.settle(plan)
        plan = self.plan_of(application, 1)
        assert holders(plan, 0) == [0, 2]
        assert not plan.probing

    def test_racks_do_not_matter_to_shipped_kafka(self) -> None:
        application = self.racked("aaaabc")
        plan = assign_high_availability(application.view(), AssignmentConfigs(num_standby_replicas=1))
        assert any({"a"} == {"aaaabc"[p] for p in holders(plan, task)} for task in range(6))


class TestRackDisagreement:
    def view(self, racks: str, tags: Sequence[dict[str, str]]) -> str | None:
        application = tagged(tags)
        for instance, rack in zip(application.instances, racks, strict=True):
            instance.rack = rack
        return rack_disagreement(application.view(), AssignmentConfigs(rack_aware_assignment_tags=BOTH))

    def test_a_tag_that_says_the_same_as_the_rack(self) -> None:
        assert self.view("ab", [{"zone": "a", "cluster": "x"}, {"zone": "b"}]) is None

    def test_a_process_whose_tag_says_otherwise(self) -> None:
        text = self.view("ab", zones("a", "c"))
        assert text is not None
        assert "is in rack b and has zone=c" in text

    def test_a_process_without_the_tag(self) -> None:
        text = self.view("ab", [{"zone": "a"}, {}])
        assert text is not None
        assert "has no tag zone" in text

    def test_it_is_reported_in_the_plan(self) -> None:
        application = tagged(zones("a", "c"))
        application.instances[0].rack = application.instances[1].rack = "a"
        configs = AssignmentConfigs(rack_aware_assignment_tags=ZONES)
        assert "disagree" in assign_streams(application.view(), configs, STREAMS_HA).notes[0]
