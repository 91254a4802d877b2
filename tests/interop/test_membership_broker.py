"""The membership on real brokers: what only they do. Members are real consumers in processes of their own."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from bellwether_kafka.coordinator.membership import MembershipConfig, NoteKind, State
from bellwether_kafka.coordinator.runtime import ServiceOutcome
from tests.interop.support.bellwether import run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.raw import RawError, describe
from tests.interop.support.security.rights import grant

pytestmark = pytest.mark.broker

PARTITIONS = 12
EXPECTED = {"membership-orders": PARTITIONS}


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic("membership-orders", PARTITIONS, rf=3)
    return "membership-orders"


def config(group: str, instance: str | None = "bellwether") -> MembershipConfig:
    return MembershipConfig(
        subscribes=True,
        group_id=group,
        instance_id=instance,
        heartbeat_interval_ms=300,
        watch_interval_ms=500,
        readopt_ms=500,
        coalesce_ms=600,
        coalesce_ms_max=3_000,
        followup_ms=1_000,
        rebalance_interval_ms_min=500,
    )


def properties(kafka: KafkaCluster) -> dict[str, str]:
    return kafka.client_config("bellwether", "bellwether")


def settled(*members: Member) -> dict[tuple[str, int], Member]:
    return wait_settled(members, partitions_of(EXPECTED), spread=1)


def stable_again(kafka: KafkaCluster, group: str) -> bool:
    """A broker that is alive has loaded the group."""
    try:
        return describe(kafka.bootstrap, group).state == "Stable"
    except (OSError, RawError):
        return False


def test_a_dynamic_member_uses_the_id_that_it_is_given(kafka: KafkaCluster, topic: str) -> None:
    with InstanceHarness(properties(kafka), config("membership-dynamic", instance=None)) as led:
        led.wait_for(State.STABLE)
        with Flock(kafka.bootstrap) as flock:
            settled(flock.member("confluent", "membership-dynamic", [topic], ["range"]))
        assert led.stop() == ServiceOutcome(0)


def test_the_newer_process_fences_the_older(kafka: KafkaCluster, topic: str) -> None:
    group = "membership-fenced"
    with Flock(kafka.bootstrap) as flock, InstanceHarness(properties(kafka), config(group)) as older:
        older.wait_for(State.STABLE)
        member = flock.member("confluent", group, [topic], ["range"])
        settled(member)
        reported = member.count("assigned")
        with InstanceHarness(properties(kafka), config(group)) as newer:
            newer.wait_for(State.STABLE)
            outcome = older.wait_for_outcome()
            assert outcome.exit_code == 3
            assert "group.instance.id 'bellwether'" in outcome.messages[0]
            assert newer.states == [State.STABLE]
            assert member.count("assigned") == reported


def test_a_group_led_by_a_member_is_watched_until_it_is_empty(kafka: KafkaCluster, topic: str) -> None:
    group = "membership-watched"
    with Flock(kafka.bootstrap) as flock:
        member = flock.member("confluent", group, [topic], ["range"])
        settled(member)
        reported = member.count("assigned")
        with InstanceHarness(properties(kafka), replace(config(group), adopt="when-empty")) as led:
            led.wait_for(State.WATCHING)
            time.sleep(1.5)
            assert led.states == [State.WATCHING]
            assert member.count("assigned") == reported
            member.stop()
            led.wait_for(State.STABLE)


def test_one_process_leads_many_groups(kafka: KafkaCluster, topic: str) -> None:
    groups = [f"membership-many-{i}" for i in range(20)]
    with InstanceHarness(properties(kafka), *map(config, groups)) as led:
        led.wait_for(State.STABLE)
        with Flock(kafka.bootstrap) as flock:
            members = [flock.member("confluent", group, [topic], ["range"]) for group in groups[:4]]
            for member in members:
                settled(member)
        assert led.message(NoteKind.REFUSED, NoteKind.ALERT) == []
        assert led.stop() == ServiceOutcome(0)


def test_a_session_timeout_below_the_brokers_floor_is_named(kafka: KafkaCluster) -> None:
    short = replace(config("membership-session"), session_timeout_ms=5_999)
    with InstanceHarness(properties(kafka), short) as refused:
        outcome = refused.wait_for_outcome()
    assert outcome.exit_code == 2
    assert "session_timeout_ms (5999)" in outcome.messages[0]


def test_a_missing_acl_is_named_and_bellwether_joins_once_it_is_granted(secured_kafka: KafkaCluster) -> None:
    group, user = "membership-acl", "application"
    sentence = f"Bellwether's principal may not use this group; grant it the ACL READ on Group '{group}'."
    with InstanceHarness(secured_kafka.client_config(user, user), config(group)) as led:
        led.wait_until(lambda: f"Group '{group}': {sentence}" in led.message(NoteKind.ALERT), sentence)
        led.wait_for(State.WATCHING)
        grant(secured_kafka, user, AclOperation.READ, ResourceType.GROUP, group)
        led.wait_for(State.STABLE)
        assert led.outcome is None


def test_an_order_without_the_right_to_write_names_the_acl(secured_kafka: KafkaCluster, tmp_path: Path) -> None:
    config_file = tmp_path / "bellwether.toml"
    properties = secured_kafka.client_config("application", "application")
    properties.pop("log_level")
    config_file.write_text(toml(properties, [{"name": "membership-acl"}], control_topic="membership-control"))
    ended = run_to_end(["leave", "membership-acl", "--config", str(config_file)])
    assert ended.code == 2
    assert (
        "may not use the control topic 'membership-control'; grant Bellwether's principal the ACL READ on"
        in ended.stderr
    )
    assert "WRITE on Topic 'membership-control'" in ended.stderr
    assert "Traceback" not in ended.text


@pytest.mark.timeout(240)
def test_the_death_of_the_coordinator_node_costs_neither_leadership_nor_partitions() -> None:
    """Its own brokers, because one of them dies. A group is Stable, so the next node knows all of it and there is no
    rebalance (docs/internals/broker-behaviour.md#coordinator-restart). Members with short sessions give up what they
    own while nobody answers, and come back."""
    with KafkaCluster() as kafka, Flock(kafka.bootstrap) as flock:
        kafka.create_topic("membership-orders", PARTITIONS, rf=3)
        patient, hasty = groups_at_one_node(kafka, "membership-patient", "membership-hasty")
        # The next coordinator node grants each member its session anew.
        configs = [replace(config(name), session_timeout_ms=30_000) for name in (patient, hasty)]
        with InstanceHarness(properties(kafka), *configs) as led:
            led.wait_for(State.STABLE)
            members = {
                group: [
                    flock.member("confluent", group, ["membership-orders"], ["range"], session_ms=session_ms)
                    for _ in range(2)
                ]
                for group, session_ms in ((patient, 30_000), (hasty, 10_000))
            }
            for first in members.values():
                settled(*first)
            generation = led.service.runners[patient].membership.generation
            kafka.kill_node(kafka.coordinator_node(patient))
            led.wait_until(lambda: stable_again(kafka, patient), "another broker took over the group", limit_s=60)
            time.sleep(5)  # everybody finds it and says that he lives
            led.wait_for(State.STABLE)
            assert led.service.runners[patient].membership.generation == generation
            for group, first in members.items():
                everybody = (*first, flock.member("confluent", group, ["membership-orders"], ["range"]))
                led.wait_until(lambda e=everybody: {len(m.owned()) for m in e} == {4}, "three share", limit_s=90)
                settled(*everybody)
            assert led.states == [State.STABLE, State.STABLE]
            assert {d.decision.plan.group.size for d in led.decisions[-1:]} == {3}
            assert led.message(NoteKind.REFUSED, NoteKind.LEFT) == []


def groups_at_one_node(kafka: KafkaCluster, *names: str) -> list[str]:
    """Group names that begin with these and have the same coordinator node."""
    alike = [names[0]]
    for name in names[1:]:
        same = (f"{name}-{i}" for i in range(100))
        alike.append(next(n for n in same if kafka.coordinator_node(n) == kafka.coordinator_node(names[0])))
    return alike
