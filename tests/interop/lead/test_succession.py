"""A short run of `succession`: a take-over needs brokers that choose leaders as it says."""

import pytest

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.scenes.succession import trials

pytestmark = pytest.mark.broker


def test_the_broker_chooses_leaders_in_the_order_of_its_listing(kafka: KafkaCluster) -> None:
    seen = trials(kafka.bootstrap, groups=8, members_max=30, seed=20)
    assert seen.successions >= 8
    assert seen.by_listing == seen.successions
    assert seen.by_hash == seen.hash_sure > 0
    assert seen.first_at_once == seen.first_expected
    assert seen.first_at_once >= 2, "an id that sorts first leads where nobody stands in its way"
