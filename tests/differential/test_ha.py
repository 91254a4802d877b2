"""Streams placements beside those of Kafka's own assignors, on the same random inputs in one JVM."""

import os
from collections.abc import Iterator
from random import Random

import pytest

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing import StickyTask, assign_high_availability
from bellwether_kafka.assignors.streams.policies import assign_fallback_prior
from bellwether_kafka.assignors.streams.sending import validate_plan
from tests.conftest import missing_tool
from tests.interop.support.assignors.referee import Referee, referee
from tests.interop.support.jvm import MissingToolError, java
from tests.kit.streams_views import Application, actives, random_application, standbys

INPUTS = int(os.environ.get("BELLWETHER_INPUTS", "1000"))
# Inputs whose answer depends on a heap of Java's that is out of order.
DISORDERED = (207071, 208595)

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka_answers(request: pytest.FixtureRequest) -> Iterator[Referee]:
    try:
        jvm = java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: nothing to compare with")
        raise
    with referee(jvm) as judge:
        yield judge


def assert_equal(kafka_answers: Referee, view: StreamsView, configs: AssignmentConfigs) -> StreamsPlan:
    plan = assign_high_availability(view, configs)
    expected = kafka_answers.judge("ha", view, configs)
    assert actives(plan, view.size) == expected["active"]
    assert standbys(plan, view.size) == expected["standby"]
    assert plan.probing == expected["probing"]
    return plan


def test_high_availability_places_every_copy_where_java_does(kafka_answers: Referee) -> None:
    probing = 0
    for seed in range(INPUTS):
        application, configs = random_application(Random(seed))
        probing += assert_equal(kafka_answers, application.view(), configs).probing
    assert probing > INPUTS // 10, "hardly any input needs movements"


@pytest.mark.parametrize("seed", DISORDERED)
def test_high_availability_follows_java_where_its_heap_is_out_of_order(kafka_answers: Referee, seed: int) -> None:
    application, configs = random_application(Random(seed), most=12)
    assert_equal(kafka_answers, application.view(), configs)


def test_high_availability_equals_java_on_many_processes(kafka_answers: Referee) -> None:
    for seed in range(INPUTS // 10):
        application, configs = random_application(Random(seed), most=50)
        assert_equal(kafka_answers, application.view(), configs)


def test_high_availability_equals_java_with_client_tags(kafka_answers: Referee) -> None:
    spread = 0
    for seed in range(INPUTS // 4):
        application, configs = random_application(Random(seed), tags=True)
        spread += len(assert_equal(kafka_answers, application.view(), configs).standby_task) > 0
    assert spread > INPUTS // 10


def test_high_availability_equals_java_rebalance_after_rebalance(kafka_answers: Referee) -> None:
    """Not from random states but from those that an application gets into: it starts, grows, warms up and shrinks."""
    for seed in range(INPUTS // 50):
        random = Random(seed)
        application, configs = random_application(random)
        spare = [application.instances.pop() for _ in range(len(application.instances) // 2)]
        for _ in range(12):
            event = random.random()
            if event < 0.3 and spare:
                application.instances.append(spare.pop())
            elif event < 0.5 and len(application.instances) > 1:
                spare.append(application.instances.pop(random.randrange(len(application.instances))))
            plan = assert_equal(kafka_answers, application.view(), configs)
            application.settle(plan, caught_up=random.random() < 0.5)


def kept(application: Application, placed: list[list[int]]) -> int:
    return sum(
        len(set(tasks) & set(instance.active)) for instance, tasks in zip(application.instances, placed, strict=True)
    )


@pytest.mark.parametrize("name", ["sticky", "fallback"])
def test_sticky_keeps_as_much_as_java_and_loads_as_evenly(kafka_answers: Referee, name: str) -> None:
    """Java iterates hash maps, so placements differ; what they are worth must not."""
    own = theirs = own_peak = their_peak = 0.0
    for seed in range(INPUTS // 4):
        application, configs = random_application(Random(seed))
        view = application.view()
        if name == "sticky":
            plan = StickyTask(view, configs, legacy=True).assign()
        else:
            plan = assign_fallback_prior(view, configs)
        expected = kafka_answers.judge(name, view, configs)
        assert validate_plan(view, plan) == ()
        assert plan.probing == expected["probing"] == (name == "fallback")
        assert len(plan.standby_task) == sum(map(len, expected["standby"]))
        own += kept(application, actives(plan, view.size))
        theirs += kept(application, expected["active"])
        own_peak += peak(view, actives(plan, view.size), standbys(plan, view.size))
        their_peak += peak(view, expected["active"], expected["standby"])
    assert own >= 0.98 * theirs > 0
    assert own_peak <= 1.03 * their_peak


def peak(view: StreamsView, active: list[list[int]], standby: list[list[int]]) -> float:
    rooms = view.capacity.tolist()
    return max((len(a) + len(s)) / room for a, s, room in zip(active, standby, rooms, strict=True))
