"""Taking the lead of running groups on real brokers: who noticed, for how long, and what it cost."""

import time
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.membership import Adopt, MembershipConfig, NoteKind, State
from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT, PATIENT_WITH_APPLICATIONS, without_members_in_the_way
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import Flock, partitions_of, wait_settled, why_unavailable
from tests.interop.support.ownership import double_ownership
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.application_takeover import take_over_application
from tests.interop.support.scenes.takeovers import COOPERATIVE, MIXED, PARTITIONS, start, take_over

pytestmark = pytest.mark.broker

TOPIC = "adoption-orders"
SLOW_MS = 10_000  # for a removed leader to be back, on whatever machine; measured elsewhere
EXPECTED = partitions_of({TOPIC: PARTITIONS})


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic(TOPIC, PARTITIONS, rf=3)
    return TOPIC


def config(group: str, adopt: Adopt = "take-over", instance: str | None = "bellwether") -> MembershipConfig:
    return MembershipConfig(
        group_id=group,
        instance_id=instance,
        adopt=adopt,
        watch_interval_ms=500,
        readopt_ms=500,
        subscribes=True,
        **PATIENT,
    )


def properties(kafka: KafkaCluster) -> dict[str, str]:
    return kafka.client_config("bellwether", "bellwether")


@pytest.mark.proof  # not yet held ten times of ten on a busy machine: not in every run
@pytest.mark.parametrize("instance", ["bellwether", None])
def test_a_running_group_is_taken_over(kafka: KafkaCluster, topic: str, instance: str | None) -> None:
    group = f"adoption-{instance or 'dynamic'}"
    with Flock(kafka.bootstrap) as flock:
        members = start(kafka, flock, group, ["confluent"] * 3, COOPERATIVE, topic)
        taken = take_over(kafka, members, config(group, instance=instance), topic)
    assert taken.broken(COOPERATIVE, SLOW_MS) == [], taken


def test_who_may_only_succeed_leaves_a_running_group_alone(kafka: KafkaCluster, topic: str) -> None:
    group = "adoption-patient"
    with Flock(kafka.bootstrap) as flock:
        start(kafka, flock, group, ["confluent"] * 2, "range", topic)
        before = last_rebalance(kafka, group)
        with InstanceHarness(properties(kafka), config(group, "succeed")) as led:
            led.wait_for(State.WATCHING)
            time.sleep(4)
            assert set(led.states) == {State.WATCHING}
        assert last_rebalance(kafka, group) == before


def test_round_robin_in_kafka_python_is_left_alone(kafka: KafkaCluster, topic: str) -> None:
    """Its leader died of Bellwether's joining: it reads a member without topics, and raises KeyError."""
    group = "adoption-fragile"
    with Flock(kafka.bootstrap) as flock:
        members = start(kafka, flock, group, ["kafka-python"] * 2, "roundrobin", topic)
        with InstanceHarness(properties(kafka), config(group)) as led:
            why = "looks like kafka-python"
            led.wait_until(lambda: any(why in reason for reason in led.message(NoteKind.WATCHING)), why)
            time.sleep(4)
            assert set(led.states) == {State.WATCHING}
        wait_settled(members, EXPECTED)
        assert not [error for member in members for error in member.errors]


@pytest.mark.smoke
def test_a_leader_that_died_is_succeeded_in_the_rebalance_that_waits_for_it(kafka: KafkaCluster, topic: str) -> None:
    """A newcomer opens a rebalance before the session of the dead leader has expired: at its end Bellwether sorts
    first. One in sixteen newcomers has a member id that no other sorts before, hence another try."""
    for attempt in range(3):
        group = f"adoption-succeeds-{attempt}"
        with Flock(kafka.bootstrap) as flock:
            members = [flock.member("confluent", group, [TOPIC], ["range"], own_process=True) for _ in range(2)]
            without_members_in_the_way(kafka, members, group, EXPECTED)
            leader = next(m for m in members if last_rebalance(kafka, group).leader.startswith(m.name))
            with InstanceHarness(properties(kafka), config(group, "succeed")) as led:
                led.wait_for(State.WATCHING)
                leader.kill()
                members[members.index(leader)] = flock.member("confluent", group, [TOPIC], ["range"])
                led.wait_until(lambda led=led: bool(led.message(NoteKind.ADOPTED, NoteKind.LEFT)), "an attempt")
                if not led.message(NoteKind.ADOPTED):
                    continue
                wait_settled(members, EXPECTED)
                assert led.message(NoteKind.ALERT, NoteKind.REFUSED) == []
                assert last_rebalance(kafka, group).leader.startswith("bellwether-")
                assert "a leader that had gone" in led.message(NoteKind.ADOPTED)[0]
                return
    raise AssertionError("three dead leaders, and none was succeeded")


@pytest.mark.proof  # not yet held ten times of ten on a busy machine: not in every run
@pytest.mark.timeout(300)
@pytest.mark.parametrize("assignor", [COOPERATIVE, "range"])
def test_twelve_members_in_four_languages_are_taken_over(kafka: KafkaCluster, topic: str, assignor: str) -> None:
    """A client of any of them may lead; that one is removed."""
    kinds = [kind for kind in MIXED if why_unavailable(kind) is None] * 3
    group = f"adoption-mixed-{assignor}"
    with Flock(kafka.bootstrap) as flock:
        members = start(kafka, flock, group, kinds, assignor, topic)
        taken = take_over(kafka, members, config(group), topic)
        print(assignor, taken)
        assert taken.broken(assignor, SLOW_MS) == [], taken
        assert not double_ownership(members)


@pytest.mark.smoke
def test_a_running_application_is_taken_over(kafka: KafkaCluster, tmp_path: Path) -> None:
    session_ms = 10_000
    taken = take_over_application(kafka, "adoption-streams", tmp_path, session_ms, PATIENT_WITH_APPLICATIONS)
    print(taken)
    assert taken.moved == 0
    assert max(taken.unowned_ms.values()) < session_ms, "nobody waited for the session of the removed thread"
    # A thread that is removed writes no checkpoint: it reads what it wrote since the last one.
    assert taken.restored < taken.written // 10, "local state was kept"
    assert taken.rebalances[-1].leader.startswith(INSTANCE)
    assert len(taken.rebalances) <= 2, "one to come in, which its leader may still have assigned, and one to lead"
    assert taken.overlaps == ()
