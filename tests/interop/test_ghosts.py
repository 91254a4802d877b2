"""Dead members of real groups with sessions of 45 s are gone at once when their successors join, and only then."""

import pytest

from protocol.consumer import ConsumerProtocolSubscription
from tests.interop.bellwether import Bellwether
from tests.interop.brokers import KafkaCluster
from tests.interop.ghosts_measure import assisting, measure
from tests.interop.members import wait_until
from tests.interop.raw import RawMember, describe

SESSION_MS = 45_000
FAR_BELOW_THE_SESSION_S = 15.0
PROTOCOLS = [("range", ConsumerProtocolSubscription().encode())]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["assist", "lead"])
def test_a_restarted_instance_does_not_wait_for_its_own_ghost(kafka: KafkaCluster, how: str) -> None:
    cost = measure(kafka, how, instances=2, threads=2, restarts=1, heartbeat_ms=1_000)
    assert cost.removed == 2, "one per thread"
    assert cost.back_s
    assert max(cost.back_s) < FAR_BELOW_THE_SESSION_S, cost


def left_behind(kafka: KafkaCluster, group: str, bellwether: Bellwether) -> None:
    """A member that joins, is seen at rest, and dies without a word."""
    dead = RawMember(kafka.bootstrap, group, PROTOCOLS, session_ms=SESSION_MS)
    dead.round()
    wait_until(lambda: bool(bellwether.log("online_conversion", group=group)), 20, bellwether.tail)
    dead._connection.close()


def test_a_vouched_client_id_frees_a_group_of_plain_consumers(kafka: KafkaCluster) -> None:
    group = "ghosts-vouched"
    with assisting(kafka, group, client_ids_unique=True) as assist:
        left_behind(kafka, group, assist)
        with RawMember(kafka.bootstrap, group, PROTOCOLS, session_ms=SESSION_MS) as successor:
            successor.round(FAR_BELOW_THE_SESSION_S)
            assert [m.member_id for m in describe(kafka.bootstrap, group).members] == [successor.member_id]
        (note,) = assist.log("ghosts", group=group, what="GHOST")
        assert "its client id has joined again" in note["reason"]
        assert not assist.is_member(group)
