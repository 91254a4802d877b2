"""Two processes under one group.instance.id on real brokers: the fenced one comes back after ten seconds, as under a
supervisor, and fences the other, and so on. The variants of it are in tests/simulation/scenes/test_duel.py."""

import time

import pytest

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.rebalances import last_rebalance, rebalances

pytestmark = [pytest.mark.broker, pytest.mark.proof, pytest.mark.timeout(600)]

BACK_MS, DURATION_S = 10_000, 240.0
PARTITIONS = 4
DUELS_MIN = 10
# Those of two reactions; after each, the process that does not subscribe to the second topic is given its partitions
# with its return, and asks for a rebalance itself. A cooperative group hands over in one more each time.
REBALANCES_MAX = {"range": 4, "cooperative-sticky": 8}


def is_to_return(member: Member) -> bool:
    """Whether it ended ten seconds ago, as the client does that the broker has fenced."""
    return not member.running and time.time() * 1000 - member.events[-1].t_ms >= BACK_MS


@pytest.mark.parametrize("assignor", REBALANCES_MAX)
def test_a_duel_under_one_instance_id_does_not_keep_the_group_from_resting(kafka: KafkaCluster, assignor: str) -> None:
    group = f"duel-{assignor}"
    topics = (f"{group}-first", f"{group}-second")
    for topic in topics:
        kafka.create_topic(topic, PARTITIONS)
    with Bellwether(kafka, [group]) as bellwether, Flock(kafka.bootstrap) as flock:

        def started(instance: str, *subscribed: str) -> Member:
            return flock.member("java", group, subscribed, [assignor], instance=instance, session_ms=45_000)

        bystander, owner = started("one", topics[0]), started("two", topics[0])
        wait_settled((bystander, owner), partitions_of({topics[0]: PARTITIONS}))
        before = last_rebalance(kafka, group).generation
        duelists, until, fenced = [owner, started("two", *topics)], time.monotonic() + DURATION_S, 0
        while time.monotonic() < until:
            for member in filter(is_to_return, duelists):
                member.start()
                fenced += 1
            time.sleep(0.1)
        caused = rebalances(kafka, group, before)
        print(f"{assignor}: {fenced} times fenced in {DURATION_S:.0f} s, {len(caused)} rebalances")
        assert fenced >= DUELS_MIN, [member.errors for member in duelists]
        assert len(caused) <= REBALANCES_MAX[assignor], bellwether.tail()
        assert all(each.leader.startswith("bellwether-") for each in caused), caused
        assert bystander.running
