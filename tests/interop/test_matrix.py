"""One line of the interoperability matrix, live."""

import pytest

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock
from tests.lab.matrix import LINES, STEPS, Life, groups


@pytest.mark.timeout(900)
def test_the_life_of_one_client(kafka: KafkaCluster) -> None:
    line = next(line for line in LINES if line.name == "confluent-kafka-cooperative")
    with Flock(kafka.bootstrap) as flock, Bellwether(kafka, groups(line)) as lead:
        outcome = Life(kafka, flock, lead, line).run()
    assert outcome.failed == []
    assert set(STEPS) <= set(outcome.cells)
