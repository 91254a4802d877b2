"""What a led group goes through at its edges: a start of many, restarts that nobody should notice, and a member whose
bytes make no sense.
"""

import pytest

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.raw import RawMember
from tests.interop.support.rebalances import Rebalance, last_rebalance, rebalances

MANY = 50
SESSION_MS = 10_000
RETURNED = "came back to its group without a rebalance"


def test_cold_start_of_many_makes_no_more_generations_than_without_bellwether(kafka: KafkaCluster) -> None:
    kafka.create_topic("edges-cold", MANY, rf=1)

    def start(group: str, after: int) -> list[Rebalance]:
        with Flock(kafka.bootstrap) as flock:
            members = [flock.member("confluent", group, ["edges-cold"], session_ms=SESSION_MS) for _ in range(MANY)]
            wait_settled(members, partitions_of({"edges-cold": MANY}), spread=0)
            return rebalances(kafka, group, after)

    without = start("edges-cold-alone", 0)
    with Bellwether(kafka, ["edges-cold-led"]):
        wait_until(lambda: bool(rebalances(kafka, "edges-cold-led")), 20, lambda: "not leading before the members came")
        base = last_rebalance(kafka, "edges-cold-led")
        led = start("edges-cold-led", base.generation)
    assert led[-1].members == MANY + 1
    assert led[-1].leader.startswith(f"{INSTANCE}-")
    print(f"cold start of {MANY}: {len(without)} generations without us, {len(led)} beside Bellwether")
    assert len(led) <= len(without)


@pytest.mark.parametrize("kind", ["java", "confluent"])
def test_static_member_returns_without_a_generation_and_to_its_partitions(kafka: KafkaCluster, kind: str) -> None:
    group = f"edges-static-{kind}"
    kafka.create_topic(group, 6)
    every = partitions_of({group: 6})
    with Bellwether(kafka, [group]), Flock(kafka.bootstrap) as flock:
        members = [flock.member(kind, group, [group], instance=f"instance-{i}", session_ms=30_000) for i in range(3)]
        before = wait_settled(members, every, spread=0)
        generation = last_rebalance(kafka, group).generation
        members[0].stop()
        members[0].start()
        assert wait_settled(members, every, spread=0) == before
        assert not rebalances(kafka, group, after=generation)


def test_killed_bellwether_returns_to_lead_and_no_member_notices(kafka: KafkaCluster) -> None:
    group = "edges-killed"
    kafka.create_topic(group, 6)
    every = partitions_of({group: 6})
    unhurried = {"session_timeout_ms": 60_000}  # its restart has so long
    with Bellwether(kafka, [group], options=unhurried) as lead, Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["cooperative-sticky"]) for _ in range(2)]
        before = wait_settled(members, every, spread=0)
        generation = last_rebalance(kafka, group).generation
        seen = [len(member.events) for member in members]
        lead.kill()
        lead.start()
        lead.wait_for_words(RETURNED, limit_s=60)
        assert not rebalances(kafka, group, after=generation)
        assert [len(member.events) for member in members] == seen

        kafka.add_partitions(group, 9)
        every = partitions_of({group: 9})
        before = wait_settled(members, every, spread=1)  # it follows the topics of a group that it has not planned for
        newcomer = flock.member("confluent", group, [group], ["cooperative-sticky"])
        after = wait_settled([*members, newcomer], every, spread=0)
        assert sum(before[tp] is not after[tp] for tp in every) == 3, "only what the newcomer gets has moved"
        assert last_rebalance(kafka, group).leader.startswith(f"{INSTANCE}-")


def test_member_whose_bytes_make_no_sense_degrades_alone(kafka: KafkaCluster) -> None:
    group = "edges-degraded"
    kafka.create_topic(group, 4)
    with Bellwether(kafka, [group]) as lead, Flock(kafka.bootstrap) as flock:
        members: list[Member] = [flock.member("java", group, [group], ["range"]) for _ in range(2)]
        wait_settled(members, partitions_of({group: 4}), spread=0)
        with RawMember(kafka.bootstrap, group, [("range", _undecodable(group))]) as odd:
            given = ConsumerProtocolAssignment.decode(odd.rebalance())
            assert given.partitions == (), "well-formed, and nothing in it"
            owners = wait_settled(members, partitions_of({group: 4}), spread=0)
            assert set(owners.values()) == set(members)
            assert odd.heartbeat(), "it stays a member"
            assert last_rebalance(kafka, group).leader.startswith(f"{INSTANCE}-")
            lead.wait_for_words(odd.member_id)
        wait_settled(members, partitions_of({group: 4}), spread=0)
        assert not [error for member in members for error in member.errors]


def _undecodable(topic: str) -> bytes:
    """Sound up to what the broker reads itself, then a list of owned partitions that is longer than the bytes left."""
    sound = ConsumerProtocolSubscription(version=0, topics=(topic,)).encode()
    return b"\x00\x01" + sound[2:] + b"\x7f\xff\xff\xff"
