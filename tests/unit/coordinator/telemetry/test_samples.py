"""Lag and traffic from two samples of offsets and sizes: measured, estimated, or reported as unknown."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.telemetry import Followed, Sampler
from bellwether_kafka.coordinator.telemetry.samples import TrafficSample, lag_entries, traffic, traffic_entries
from tests.kit.brokers import FOLLOWER, LEADER, SILENT, AdminOfBrokers, AnsweringBrokers, Sizes
from tests.kit.plans import KeptEvents

UNKNOWN = -1

CLUSTER = ClusterView.of({"t": [["az1"], ["az2"], ["az3"]]})
FOLLOWED = Followed("g", CLUSTER, ("a", None, "b"), ("az1", None, None), (None, None, None))


def refresh(at_ms: int, start: list[int], end: list[int], committed: list[int], size: list[int]) -> TrafficSample:
    return TrafficSample(at_ms, *(np.array(column, dtype=np.int64) for column in (start, end, committed, size)))


def test_lag_is_unknown_without_a_commit_and_never_negative() -> None:
    entries = lag_entries(FOLLOWED, refresh(0, [0, 0, 0], [10, 5, 7], [UNKNOWN, 1, 9], [0, 0, 0]))
    assert [(e["partition"], e["member"], e["lag"]) for e in entries] == [(0, "a", UNKNOWN), (2, "b", 0)]


def test_bytes_are_the_growth_of_the_log() -> None:
    before = refresh(0, [0, 0, 0], [10, 10, 10], [0, 0, 0], [1000, 1000, 1000])
    records, written = traffic(before, refresh(1, [0, 0, 0], [10, 20, 11], [0, 0, 0], [1000, 3000, 1007]))
    assert (records.tolist(), written.tolist()) == ([0, 10, 1], [0, 2000, 7])


def test_bytes_are_estimated_where_retention_cut_the_log() -> None:
    before = refresh(0, [0, 0, 0], [100, 100, 100], [0, 0, 0], [1000, 1000, UNKNOWN])
    records, written = traffic(before, refresh(1, [100, 90, 0], [150, 110, 150], [0, 0, 0], [500, 400, 800]))
    assert records.tolist() == [50, 10, 50]
    # 50 records of 10 bytes; 10 of 20 bytes; where the first size is unknown, 50 of 800 / 150.
    assert written.tolist() == [500, 200, 266]


def test_a_recreated_topic_and_unread_offsets_are_unknown() -> None:
    before = refresh(0, [50, 0, 0], [100, UNKNOWN, 5], [0, 0, 0], [1000, 0, 10])
    records, written = traffic(before, refresh(1, [0, 0, 0], [120, 5, UNKNOWN], [0, 0, 0], [10, 10, 10]))
    assert records.tolist() == written.tolist() == [UNKNOWN, UNKNOWN, UNKNOWN]


def test_a_topic_with_another_id_was_created_again_even_if_its_offsets_seem_as_if_it_grew() -> None:
    first, second = (refresh(t, [0] * 3, [t] * 3, [0] * 3, [t * 10] * 3) for t in (0, 7))

    def records(before: dict[str, str], now: dict[str, str]) -> set[tuple[int, int]]:
        entries = traffic_entries(FOLLOWED, replace(first, ids=before), replace(second, ids=now))
        return {(entry["records"], entry["bytes"]) for entry in entries}

    assert records({"t": "one"}, {"t": "other"}) == {(UNKNOWN, UNKNOWN)}
    assert records({"t": "one"}, {"t": "one"}) == records({}, {"t": "one"}) == records({"t": "one"}, {}) == {(7, 70)}


def test_traffic_names_reader_and_racks() -> None:
    first, second = (refresh(t, [0] * 3, [t] * 3, [0] * 3, [t * 10] * 3) for t in (0, 7))
    entries = traffic_entries(FOLLOWED, first, second)
    assert [(e["member"], e["rack"], e["leader_rack"], e["records"], e["bytes"]) for e in entries] == [
        ("a", "az1", "az1", 7, 70),
        ("b", None, "az3", 7, 70),
    ]


def test_traffic_needs_two_refreshes_at_the_same_partitions() -> None:
    kept = KeptEvents()
    sampler = Sampler(kept)
    sampler.publish(FOLLOWED, refresh(1, [0] * 3, [1] * 3, [0] * 3, [1] * 3))
    sampler.publish(FOLLOWED, refresh(2, [0] * 3, [2] * 3, [0] * 3, [2] * 3))
    grown = ClusterView.of({"t": [["az1"]] * 4})
    more = Followed("g", grown, ("a",) * 4, (None,) * 4, (None,) * 4)
    sampler.publish(more, refresh(3, [0] * 4, [2] * 4, [0] * 4, [2] * 4))
    assert [(event, record["sampled_at_ms"]) for event, record in kept.events] == [
        ("lag", 1),
        ("lag", 2),
        ("traffic", 2),
        ("lag", 3),
    ]
    sampler.on_note("g", Note(NoteKind.LEFT, "gone"))
    sampler.publish(FOLLOWED, refresh(4, [0] * 3, [2] * 3, [0] * 3, [2] * 3))
    assert kept.events[-1][0] == "lag"


async def sizes_from(*answers: Sizes | TransportError, down: Collection[int] = ()) -> Sizes:
    transport, admin = AnsweringBrokers(*answers), cast("Any", AdminOfBrokers(len(answers), down=down))
    try:
        return dict(await Sampler(KeptEvents())._sizes({"t": 2}, transport, admin))
    finally:
        await transport.close()


async def test_sizes_are_unknown_of_partitions_without_a_replica_on_a_broker_that_answers() -> None:
    assert await sizes_from(FOLLOWER, LEADER) == LEADER
    assert await sizes_from(FOLLOWER, SILENT) == FOLLOWER
    assert await sizes_from(FOLLOWER, LEADER, down=[1]) == FOLLOWER
    assert await sizes_from(SILENT, SILENT) == {}, "a sample without sizes, and not none at all"


@pytest.mark.parametrize(("answer", "reason"), [({}, "the ACL DESCRIBE on Cluster"), (SILENT, "no answer in time")])
async def test_the_log_names_why_sizes_are_unknown(answer: Sizes | TransportError, reason: str) -> None:
    with capture_logs() as lines:
        await sizes_from(answer)
    (line,) = lines
    assert line["event"] == "sizes_unknown"
    assert reason in line["reason"]
