"""Dead members of real groups with sessions of 45 s are gone at once when their successors join, and only then."""

import pytest

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.scenes.ghosts import assisting, freed_of_a_ghost, measure

FAR_BELOW_THE_SESSION_S = 15.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["assist", "lead"])
def test_a_restarted_instance_does_not_wait_for_its_own_ghost(kafka: KafkaCluster, how: str) -> None:
    cost = measure(kafka, how, instances=2, threads=2, restarts=1, heartbeat_ms=1_000)
    assert cost.removed == 2, "one per thread"
    assert cost.back_s
    assert max(cost.back_s) < FAR_BELOW_THE_SESSION_S, cost


@pytest.mark.timeout(300)
def test_a_attested_client_id_frees_a_group_of_plain_consumers(kafka: KafkaCluster) -> None:
    group = "ghosts-vouched"
    with assisting(kafka, group, client_ids_unique=True) as assist:
        freed_of_a_ghost(kafka, group, assist)
        assert not assist.is_member(group)
