"""Between rebalances: probes when they are due and the group is at rest, stalled tasks, internal topics, silent
brokers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka.client import OffsetsError
from bellwether_kafka.coordinator.membership import (
    MembershipConfig,
    RebalanceWanted,
    State,
    StepAsideWanted,
    WorkSuspected,
)
from bellwether_kafka.coordinator.topology import TopicCreationError
from bellwether_kafka.coordinator.triggers import TRIGGERS, Prober
from tests.kit.applications import A, App, B, Cluster, Led, Log, TopologySource, run
from tests.kit.membership import ME, Play, member
from tests.kit.streams import SHOP_COUNTS, Thread, always, placed

ENDS_INTERVAL_S = 30.0

PROBING = always(replace(placed([0, 1, 0, 1, 0, 1, 0, 1], [(4, 1)], probing=True), warmup=np.array([True])))


def prober_of(led: Led) -> Prober:
    prober = led.watch._states["probing"]
    assert isinstance(prober, Prober)
    return prober


def test_a_probe_is_wanted_when_it_is_due_and_only_once() -> None:
    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)
        assert await led.later(4) == []
        assert prober_of(led).next_at_ms is not None
        (wanted,) = await led.later(1)
        assert isinstance(wanted, RebalanceWanted)
        assert "probe" in wanted.reason
        assert await led.later(1) == []
        (tick,) = await led.later(600)
        assert isinstance(tick, RebalanceWanted)

    run(scenario())


def test_no_probe_ends_an_application_that_only_goes_on_while_nobody_rebalances_it() -> None:
    """A stateful input that has outgrown its internal topics: Bellwether could not plan, and a Java leader would fail
    it."""

    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)
        led.app.cluster.counts |= {"orders": 8}
        assert await led.later(5) == []
        assert await led.later(600) == []
        asked = len(led.app.cluster.asked)
        assert await led.later(1) == []
        assert len(led.app.cluster.asked) == asked, "it looks again every half minute"
        led.app.cluster.counts |= {"shop-by-user-repartition": 8, "shop-totals-changelog": 8}
        (wanted,) = await led.later(30)
        assert isinstance(wanted, RebalanceWanted)

    run(scenario())


def test_nothing_is_reported_while_the_group_is_not_at_rest() -> None:
    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)
        await led.later(0)
        led.play.wake().heartbeat(27)
        assert led.play.state is State.JOINING
        assert await led.later(1000) == []
        assert prober_of(led).next_at_ms is not None

    run(scenario())


def test_a_group_that_is_no_longer_led_is_forgotten() -> None:
    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)
        await led.later(0)
        led.play.send(StepAsideWanted("x")).left()
        assert led.play.state is State.WATCHING
        assert await led.later(1000) == []
        assert prober_of(led).next_at_ms is None

    run(scenario())


def test_tasks_that_make_no_progress_raise_an_alert_once_and_their_members_are_asked_what_they_have() -> None:
    async def scenario() -> None:
        led = Led()
        await led.rebalance(1, A, B)
        led.app.log.done = 10
        received = [event for _ in range(12) for event in await led.later(12)]
        assert not [event for event in received if isinstance(event, StepAsideWanted)]
        asked = [event.reason for event in received if isinstance(event, RebalanceWanted)]
        assert (
            asked
            == ["see whether member a works on its tasks: it has records to read and has committed nothing yet"] * 3
        )
        alerts = [event.reason for event in received if isinstance(event, WorkSuspected)]
        assert len(alerts) == 2
        assert alerts[0].startswith("task 0_0, 0_1, 0_2 and 5 more has records to read and commits nothing")
        assert alerts[1].startswith("member a has committed nothing for task 0_0, 0_2, 1_0 and 1 more since it joined")

    run(scenario())


def test_a_thread_that_keeps_state_of_a_stateless_task_makes_it_step_aside_at_once() -> None:
    """Another version of the application, which Bellwether's topology does not know."""

    async def scenario() -> None:
        led = Led(App(attested=True))
        await led.rebalance(1, A, B)
        assert await led.later(1) == []
        led.app.at_s += 30
        threads = [t.after(led.app.planner._previous) for t in (A, B)]
        await led.rebalance(2, replace(threads[0], sums={**threads[0].sums, (0, 0): 0}), threads[1])
        (wanted,) = [event for event in await led.later(1) if isinstance(event, StepAsideWanted)]
        assert "has task 0_0 and keeps state of it, which it has not by the topology" in wanted.reason

    run(scenario())


def test_a_check_that_fails_takes_no_verdict_of_the_same_tick_away() -> None:
    async def scenario() -> None:
        led = Led(App(attested=True))
        await led.rebalance(1, A, B)
        assert await led.later(1) == []
        led.app.at_s += 30
        threads = [t.after(led.app.planner._previous) for t in (A, B)]
        await led.rebalance(2, replace(threads[0], sums={**threads[0].sums, (0, 0): 0}), threads[1])
        led.app.log.failure = "no answer"
        assert [type(event) for event in await led.later(1)] == [StepAsideWanted]

    run(scenario())


def test_a_check_for_which_brokers_have_no_answer_keeps_no_warm_up_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)

        async def silent(*_: object) -> None:
            raise OffsetsError("committed offsets of shop: no answer in time")

        monkeypatch.setattr(led.app.log, "committed", silent)
        (wanted,) = await led.later(5)
        assert isinstance(wanted, RebalanceWanted)
        assert "probe" in wanted.reason

    run(scenario())


def test_an_application_whose_instances_all_end_at_once_is_not_passed_over_in_silence() -> None:
    async def scenario() -> None:
        led = Led(App(attested=True))
        await led.rebalance(1, A, B)
        for _ in range(3):
            led.app.log.end += 10
            assert not [event for event in await led.later(6) if not isinstance(event, RebalanceWanted)]
        led.play = Play(protocols=("stream",)).joining().joined(member(ME), protocol="stream").synced()
        (alert,) = await led.later(6)
        assert isinstance(alert, WorkSuspected)
        assert "all instances have ended within 60 s of their first tasks" in alert.reason
        assert await led.later(1) == []

    run(scenario())


def test_tasks_that_commit_are_left_alone() -> None:
    async def scenario() -> None:
        led = Led()
        await led.rebalance(1, A, B)
        for done in range(10, 30):
            led.app.log.done = done
            assert await led.later(12) == []

    run(scenario())


@pytest.mark.parametrize("set_by_s", [3_600.0, -3_600.0])
def test_a_clock_that_is_set_makes_no_standstill_of_members_that_have_just_changed(set_by_s: float) -> None:
    async def scenario() -> None:
        led = Led()
        await led.rebalance(1, A, B)
        led.app.log.end = 2_000
        for _ in range(4):
            led.app.log.done += 100
            assert await led.later(12) == []
        await led.rebalance(2, *(t.after(led.app.planner._previous) for t in (A, B)), Thread("c", 3))
        received = await led.later(12)
        led.app.at_s, led.set_by_s = led.app.at_s + set_by_s, led.set_by_s + set_by_s
        received += await led.later(12)
        assert [e for e in received if isinstance(e, StepAsideWanted | WorkSuspected)] == []

    run(scenario())


def test_a_standby_that_falls_behind_makes_a_rebalance() -> None:
    async def scenario() -> None:
        led = Led(App(standby_lag_max=500, num_standby_replicas=1))
        await led.rebalance(1, A, B)
        led.app.at_s += 60
        led.app.log.end = led.app.log.done = 1_100
        await led.rebalance(2, *(t.after(led.app.planner._previous) for t in (A, B)))
        assert await led.later(10) == []
        led.app.log.end = led.app.log.done = 5_000
        (wanted,) = await led.later(ENDS_INTERVAL_S)
        assert isinstance(wanted, RebalanceWanted)
        assert "records behind" in wanted.reason
        assert await led.later(ENDS_INTERVAL_S) == []

    run(scenario())


def test_alone_it_makes_the_internal_topics() -> None:
    async def scenario() -> None:
        fresh = Log(committed=-1)
        app = App(
            cluster=Cluster({"orders": 4}),
            log=fresh,
            topology_source=TopologySource(creates=SHOP_COUNTS),
            attested=True,
        )
        led = Led(app)
        led.play = Play(protocols=("stream",)).stable_alone()
        assert await led.later(0) == []
        assert app.cluster.counts == SHOP_COUNTS
        asked = len(app.cluster.asked)
        await led.later(1)
        assert len(app.cluster.asked) == asked

    run(scenario())


def test_silence_of_brokers_is_logged_once_and_does_not_end_the_watch() -> None:
    async def scenario() -> None:
        led = Led()
        await led.rebalance(1, A, B)
        led.app.log.failure = "no answer"
        with capture_logs() as lines:
            assert [await led.later(12) for _ in range(4)] == [[]] * 4
        assert [line["event"] for line in lines] == ["offsets_unknown"]
        led.app.log.failure = None
        with capture_logs() as lines:
            await led.later(12)
        assert lines == []

    run(scenario())


def test_a_trigger_with_a_defect_keeps_no_other_from_being_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(TRIGGERS, "work", replace(TRIGGERS["work"], judge=broken))

    async def scenario() -> None:
        led = Led(App(acceptable_recovery_lag=0), PROBING)
        await led.rebalance(1, A, B)
        with capture_logs() as lines:
            (wanted,) = await led.later(5)
        assert isinstance(wanted, RebalanceWanted)
        assert {(line["event"], line["trigger"]) for line in lines} == {("trigger_failed", "work")}

    run(scenario())


def test_the_machine_of_these_tests_leads() -> None:
    assert Led().play.state is State.DECIDING
    assert MembershipConfig("g", protocols=("stream",)).streams


@pytest.mark.parametrize(
    ("error", "event", "reason"),
    [
        (TimeoutError(), "metadata_unknown", "no answer in time"),
        (TopicCreationError("topic t: grant CREATE"), "internal_topics_not_created", "topic t: grant CREATE"),
    ],
)
async def test_brokers_that_are_silent_or_refuse_are_a_sentence_in_the_log_and_not_the_end(
    error: Exception, event: str, reason: str
) -> None:
    class Silent:
        async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView:
            del topics, age_ms_max
            raise error

    led = Led(App(attested=True))
    led.app.kind._reader = Silent()
    led.play = Play(protocols=("stream",)).stable_alone()
    with capture_logs() as lines:
        for _ in range(3):
            await led.later(60)
    assert [(line["event"], line["reason"]) for line in lines] == [(event, reason)]
    assert not any("exc_info" in line for line in lines)
