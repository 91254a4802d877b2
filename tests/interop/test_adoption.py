"""Taking the lead of running groups on real brokers: who noticed, for how long, and what it cost."""

import time

import pytest

from coordinator.commands import NoteKind
from coordinator.group import State
from coordinator.group_config import Adopt, MembershipConfig
from coordinator.succession import Order, Table, buckets_for, unavoidable
from tests.interop.brokers import KafkaCluster
from tests.interop.members import Flock, Member, partitions_of, wait_settled
from tests.interop.raw import describe
from tests.interop.rounds import last_round, rounds
from tests.interop.sidecar import Sidecar

pytestmark = pytest.mark.broker

PARTITIONS = 12
TOPIC = "adoption-orders"
EXPECTED = partitions_of({TOPIC: PARTITIONS})


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic(TOPIC, PARTITIONS, rf=3)
    return TOPIC


def config(group: str, adopt: Adopt = "take-over", instance: str | None = "bellwether") -> MembershipConfig:
    return MembershipConfig(group_id=group, instance_id=instance, adopt=adopt, watch_interval_ms=500, readopt_ms=500)


def properties(kafka: KafkaCluster) -> dict[str, str]:
    return kafka.client_config("bellwether", "bellwether")


def start(kafka: KafkaCluster, flock: Flock, group: str, kinds: list[str], assignor: str) -> list[Member]:
    """Settled members, none of which stands where nobody can pass it except the leader (see `succession`)."""
    members = [flock.member(kind, group, [TOPIC], [assignor]) for kind in kinds]
    for _ in range(10):
        wait_settled(members, EXPECTED)
        ids = {m.client_id: m.member_id for m in describe(kafka.bootstrap, group).members}
        leader = last_round(kafka, group).leader
        table = Table(Order.JAVA, buckets_for(len(ids) + 1, Order.JAVA))
        ahead = [m for m in unavoidable(ids.values(), table) if m != leader]
        if not ahead:
            return members
        for member in members:
            if ids.get(member.name) in ahead:
                member.stop()
                member.start()
    raise AssertionError("no group without a rival in ten tries")


@pytest.mark.parametrize("instance", ["bellwether", None])
def test_a_running_group_is_taken_over(kafka: KafkaCluster, topic: str, instance: str | None) -> None:
    group = f"adoption-{instance or 'dynamic'}"
    with Flock(kafka.bootstrap) as flock:
        members = start(kafka, flock, group, ["confluent"] * 3, "cooperative-sticky")
        before = last_round(kafka, group).generation
        owners = wait_settled(members, EXPECTED)
        with Sidecar(properties(kafka), config(group, instance=instance)) as led:
            led.wait_for(State.STABLE)
            after = wait_settled(members, EXPECTED)
            assert led.said(NoteKind.ALERT, NoteKind.REFUSED) == []
            (said,) = led.said(NoteKind.ADOPTED)
            generation = last_round(kafka, group)
            assert generation.leader == led.service.runners[group].membership.member_id, said
            assert generation.generation - before <= 2
            assert after == owners, "nothing has moved"
        assert len(rounds(kafka, group, before)) >= 1


def test_who_may_only_succeed_leaves_a_running_group_alone(kafka: KafkaCluster, topic: str) -> None:
    group = "adoption-patient"
    with Flock(kafka.bootstrap) as flock:
        start(kafka, flock, group, ["confluent"] * 2, "range")
        before = last_round(kafka, group)
        with Sidecar(properties(kafka), config(group, "succeed")) as led:
            led.wait_for(State.WATCHING)
            time.sleep(4)
            assert set(led.states) == {State.WATCHING}
        assert last_round(kafka, group) == before
