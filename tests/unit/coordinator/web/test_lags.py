"""Lags for the status page: of partitions and of what tasks read, and read from brokers only once somebody looks."""

import asyncio
from collections.abc import Mapping

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bellwether_kafka.assignors.shared.model import ClusterView
from bellwether_kafka.coordinator.kafka.cluster import ClusterReader
from bellwether_kafka.coordinator.kafka.offset_reader import Offsets
from bellwether_kafka.coordinator.telemetry.samples import Followed
from bellwether_kafka.coordinator.web.lags import OLD_S, Lags, LagWatch, lags_of_items, with_lags
from bellwether_kafka.coordinator.web.picture import Picture, round_picture
from bellwether_kafka.coordinator.web.rounds import Rounds
from tests.measure.demo.embedded_brokers import EmbeddedCluster
from tests.measure.demo.embedded_transport import EmbeddedTransport
from tests.patience import PATIENCE
from tests.unit.assignors.streams.world import Thread, group, led
from tests.unit.coordinator.planning.test_streams_report import ONE_STANDBY
from tests.unit.coordinator.web.test_picture import decided, member, planned, tasks


def offsets(of: Mapping[str, list[int]]) -> Offsets:
    return {topic: np.array(values, dtype=np.int64) for topic, values in of.items()}


def told(picture: Picture | None) -> dict[str, int | None]:
    assert picture is not None
    return {item.name: item.lag for holder in picture.holders for item in holder.items}


def test_a_partition_without_a_commit_or_a_holder_has_no_lag() -> None:
    cluster = ClusterView.of({"a": [[], []], "t": [[], [], [], []]})
    holder = (None, None, "x", "x", "x", None)
    followed = Followed("g", cluster, holder, (None,) * 6, (None,) * 6)
    committed, ends = offsets({"t": [3, -1, 9, 0]}), offsets({"t": [10, 10, 8, 5]})
    assert lags_of_items(followed, committed, ends) == {"t-0": 7, "t-2": 0}


def test_a_task_is_behind_by_all_that_it_reads() -> None:
    cluster = ClusterView.of({"a": [[], []], "b": [[], []]})
    followed = Followed("g", cluster, ("x",) * 4, (None,) * 4, ("0_0", "0_1", "0_0", "0_1"))
    committed, ends = offsets({"a": [1, 2], "b": [3, -1]}), offsets({"a": [11, 2], "b": [8, 9]})
    assert lags_of_items(followed, committed, ends) == {"0_0": 15}, "of 0_1 not all is known"


def test_standbys_keep_the_lag_that_their_threads_tell() -> None:
    decision = led(group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2")), configs=ONE_STANDBY)
    found = round_picture(tasks(decision))
    lagging = with_lags(found, Lags(10.0, {"1_0": 77}), 12.5)
    pairs = [
        (old, new)
        for h, g in zip(found.holders, lagging.holders, strict=True)
        for old, new in zip(h.items, g.items, strict=True)
    ]
    changed = [new for old, new in pairs if new != old]
    assert [(item.name, item.lag, item.lag_age_ms) for item in changed] == [("1_0", 77, 2_500)]
    assert changed[0].state not in ("standby", "warm-up")
    assert sum(old.name == "1_0" for old, _ in pairs) == 2, "there is a standby of it too"


def test_of_a_group_that_nobody_leads_there_is_no_picture() -> None:
    assert LagWatch(Rounds()).picture("g") is None


@pytest.mark.embedded
def test_a_look_has_lags_read() -> None:
    """Three partitions of four have an owner who committed: 5, 0 and 1 of their records are left."""
    with EmbeddedCluster() as brokers:
        brokers.create_topic("orders", 4)
        quiet = {"bootstrap.servers": brokers.bootstrap, "log_level": 0}
        producer = Producer(quiet)
        for partition, records in ((0, 5), (1, 3), (2, 4)):
            for _ in range(records):
                producer.produce("orders", b"x", partition=partition)
        assert producer.flush(60) == 0
        consumer = Consumer({**quiet, "group.id": "g"})
        commits = [TopicPartition("orders", p, at) for p, at in ((0, 0), (1, 3), (2, 3))]
        consumer.commit(offsets=commits, asynchronous=False)
        consumer.close()
        before, after, later = asyncio.run(looked(brokers))
    assert set(told(before).values()) == {None}
    assert told(after) == {"orders-0": 5, "orders-1": 0, "orders-2": 1, "orders-3": None}
    assert set(told(later).values()) == {None}, "what is old says nothing"


async def looked(brokers: EmbeddedCluster) -> tuple[Picture | None, Picture | None, Picture | None]:
    """The picture at the first look, as soon as it has lags, and long after that."""
    rounds, now = Rounds(), [100.0]
    rounds.on_decision(planned(decided(member("a", "az1"), member("b", None))))
    watch = LagWatch(rounds, clock=lambda: now[0])
    transport = EmbeddedTransport(brokers.properties)
    await transport.start()
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    beside = asyncio.create_task(watch.beside(None, transport, cluster.admin))
    try:
        before = after = watch.picture("g")
        async with asyncio.timeout(60 * PATIENCE):
            while set(told(after).values()) == {None}:
                await asyncio.sleep(0.05)
                now[0] += 3.0
                after = watch.picture("g")
        beside.cancel()
        now[0] += OLD_S + 4.0
        return before, after, watch.picture("g")
    finally:
        cluster.close()
        await transport.close()


def test_the_rest_of_a_picture_stays() -> None:
    found = round_picture(planned(decided(member("a", "az1"))))
    assert with_lags(found, Lags(0.0, {}), 1.0) == found
