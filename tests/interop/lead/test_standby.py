"""Instances that stand by for one another, and operators' orders, on real brokers. `make failover` tries each many
times and prints figures, `make faults` tries each step of a rebalance."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from bellwether_kafka.coordinator.control import read_all
from tests.interop.support.bellwether import Ended, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet, LeaderPlace, strangers
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.scenes.failover import SETTLE_S, Stage, Trials
from tests.interop.support.scenes.kill_points import OPTIONS, killed, plain_rebalance
from tests.interop.support.scenes.kill_points import PARTITIONS as POINT_PARTITIONS
from tests.interop.support.scenes.kill_points import TOPIC as POINT_TOPIC

pytestmark = pytest.mark.broker

GROUP, TOPIC, CONTROL = "failover", "failover", "failover-control"
# What a busy machine may add to a hand-over that takes milliseconds.
HAND_OVER_S_MAX = 2.0
BUSY_S = 4.0


@pytest.fixture(scope="module")
def stage(kafka: KafkaCluster) -> Iterator[Stage]:
    kafka.create_topic(TOPIC, 12)
    with (
        InstanceSet(kafka, [GROUP], CONTROL, options=OPTIONS) as instances,
        Flock(kafka.bootstrap) as flock,
        LeaderPlace(kafka.bootstrap, GROUP) as member_entry,
    ):
        yield Stage(kafka, instances, flock, member_entry)


@dataclass(frozen=True, slots=True)
class Operator:
    """Gives orders on the command line."""

    kafka: KafkaCluster

    def orders(self, *arguments: str) -> Ended:
        ended = run_to_end([*arguments, "--bootstrap", self.kafka.bootstrap, "--topic", CONTROL])
        assert ended.code == 0, ended.text
        return ended


@pytest.fixture
def operator(kafka: KafkaCluster) -> Operator:
    return Operator(kafka)


@pytest.mark.smoke
def test_the_lead_passes_when_the_leader_is_killed_and_nobody_notices(stage: Stage) -> None:
    trials = Trials("killed", OPTIONS["session_timeout_ms"] / 1000 + 1)
    stage.killed_at_rest(trials)
    assert trials.passed(), trials


def test_no_member_leads_when_the_leader_is_killed_in_a_rebalance(stage: Stage) -> None:
    trials = Trials("killed in a rebalance", OPTIONS["session_timeout_ms"] / 1000 + 5)
    stage.killed_in_a_rebalance(trials)
    assert trials.passed(), trials


def test_a_drain_hands_the_lead_over(stage: Stage, operator: Operator) -> None:
    trials = Trials("drained", HAND_OVER_S_MAX)
    stage.drained(trials)
    assert trials.passed(), trials
    holder = stage.member_entry.holder
    assert "hands its groups over" in operator.orders("drain").stdout
    stage.member_entry.next_holder(holder, 10)


def test_a_paused_leader_wakes_up_as_a_standby(stage: Stage) -> None:
    trials = Trials("paused", OPTIONS["session_timeout_ms"] / 1000 + 1)
    stage.paused(trials)
    assert trials.passed(), trials


def test_a_rolling_restart_costs_no_rebalance(stage: Stage) -> None:
    trials = Trials("rolled", HAND_OVER_S_MAX)
    stage.rolled(trials)
    assert trials.passed(), trials


def test_orders_are_carried_out_and_outlive_the_leader(stage: Stage, kafka: KafkaCluster, operator: Operator) -> None:
    generation = last_rebalance(kafka, GROUP).generation
    operator.orders("rebalance", GROUP, "--reason", "test")
    wait_until(lambda: bool(rebalances(kafka, GROUP, generation)), 20, stage.instances.tails)
    stage.settle()
    control = read_all(kafka.client_config("admin", "admin"), CONTROL, 10)
    assert f"rebalance/{GROUP}" not in control, "withdrawn by whoever began it"

    operator.orders("leave", GROUP, "--for", "10m", "--reason", "offset reset")
    wait_until(lambda: last_rebalance(kafka, GROUP).leader.startswith(f"{GROUP}-java"), 20, stage.instances.tails)
    stage.settle()
    assert "has ordered leave of 'failover' (offset reset)" in operator.orders("orders").stdout
    restarted = stage.instances.processes[0]
    restarted.stop()
    stage.instances.start(restarted)
    wait_until(
        lambda: (
            bool(restarted.log("orders_in_force")) and "offset reset" in restarted.log("orders_in_force")[-1]["leave"]
        ),
        20,
        restarted.tail,
    )
    assert not strangers_of_own(kafka), "it stays out although it has just come"
    operator.orders("resume", GROUP)
    assert "offset reset" not in operator.orders("orders").stdout


def strangers_of_own(kafka: KafkaCluster) -> list[str]:
    """Members of the group under Bellwether's instance id."""
    return [m.member_id for m in describe(kafka.bootstrap, GROUP).members if m.instance_id is not None]


@pytest.mark.parametrize("point", ["deciding", "before-sync"])
def test_an_instance_killed_between_join_and_sync_stalls_the_group_no_longer_than_promised(
    kafka: KafkaCluster, point: str, request: pytest.FixtureRequest
) -> None:
    kafka.ensure_topic(POINT_TOPIC, POINT_PARTITIONS)
    with Flock(kafka.bootstrap) as flock:
        ordinary_s = plain_rebalance(kafka, flock, f"points-{point}-ordinary")
        outcome = killed(kafka, flock, point, ordinary_s, standby=False)
    assert outcome.broken == ()
    # How long an ordinary rebalance takes varies on a busy machine; `make faults` compares both on a calm one.
    assert outcome.took_s < outcome.promised_s + BUSY_S, outcome


@pytest.mark.proof  # one death of many that `kill_points` tries
def test_a_bug_of_bellwethers_hands_the_group_to_the_standby(kafka: KafkaCluster) -> None:
    kafka.ensure_topic(POINT_TOPIC, POINT_PARTITIONS)
    with Flock(kafka.bootstrap) as flock:
        outcome = killed(kafka, flock, "deciding", SETTLE_S, standby=True, how="break")
    assert (outcome.broken, outcome.led_by) == ((), "an instance")


def test_the_order_on_the_wire_is_documented_json(stage: Stage, kafka: KafkaCluster, operator: Operator) -> None:
    operator.orders("pause", GROUP, "--for", "30s")
    record = read_all(kafka.client_config("admin", "admin"), CONTROL, 10)[f"pause/{GROUP}"]
    value = json.loads(json.dumps(record.to_json()))
    assert value["v"] == 1
    assert value["kind"] == "pause"
    assert value["expires_ms"] - value["at_ms"] == 30_000
    operator.orders("resume", GROUP)
    assert not strangers(kafka, GROUP, 1 << 30)
