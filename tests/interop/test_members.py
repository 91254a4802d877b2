"""The member programs report what their libraries do: checked in groups that lead themselves, without a coordinator."""

import pytest
from confluent_kafka import Producer

from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import KINDS, Flock, partitions_of, wait_settled, wait_until, why_unavailable
from tests.interop.support.ownership import consumed_gaps

PARTITIONS = 4
RECORDS = 200


def test_every_kind_of_member_reports_what_it_owns_and_reads(
    kafka: KafkaCluster, request: pytest.FixtureRequest
) -> None:
    kinds = [kind for kind in KINDS if why_unavailable(kind) is None]
    kafka.create_topic("members", PARTITIONS, rf=2)
    producer = Producer(kafka.client_config("admin", "admin"))
    for i in range(RECORDS):
        producer.produce("members", value=b"x" * 10, partition=i % PARTITIONS)
    assert producer.flush(20) == 0
    every = partitions_of({"members": PARTITIONS})
    ends = dict.fromkeys(every, RECORDS // PARTITIONS)

    with Flock(kafka.bootstrap) as flock:
        pairs = {k: [flock.member(k, f"members-{k}", ["members"], own_process=i == 1) for i in (0, 1)] for k in kinds}
        for pair in pairs.values():
            owners = wait_settled(pair, every, spread=0)
            assert len(set(owners.values())) == 2
        readers = [(pair, ends) for pair in pairs.values()]
        wait_until(lambda: not any(consumed_gaps(*reader) for reader in readers), 30, lambda: "records were skipped")
        for first, second in pairs.values():
            first.stop()
            second.kill()
            assert not first.owned()
            assert not second.owned()
    for kind in set(KINDS) - set(kinds):
        missing_tool(request.config, str(why_unavailable(kind)))
