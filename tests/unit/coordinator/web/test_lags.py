"""Lags for the status page: of partitions and of what tasks read, and read from brokers only once the page asks."""

import asyncio
from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka.client import ClusterReader, OffsetReader
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import GroupLag, LagVerdict
from bellwether_kafka.coordinator.telemetry import Followed
from bellwether_kafka.coordinator.web import LagWatch, LedRebalances, Picture, led_lags
from bellwether_kafka.coordinator.web.led_lags import Lags, lags_of_items, owners_of, with_lags
from bellwether_kafka.coordinator.web.picture import rebalance_picture
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import ONE_STANDBY
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport
from tests.kit.observed import group_lag, sample
from tests.kit.plans import decided, member, planned, tasks
from tests.kit.streams import Thread, group, led
from tests.patience import PATIENCE

OLD_S = 60.0


def refreshed_at(committed: Mapping[str, list[int]], ends: Mapping[str, list[int]]) -> GroupLag:
    return group_lag(sample(9, committed, ends), owners={})


def reported(picture: Picture | None) -> dict[str, int | None]:
    assert picture is not None
    return {item.name: item.lag for holder in picture.holders for item in holder.items}


def test_a_partition_without_a_commit_or_a_holder_has_no_lag() -> None:
    cluster = ClusterView.of({"a": [[], []], "t": [[], [], [], []]})
    holder = (None, None, "x", "x", "x", None)
    followed = Followed("g", cluster, holder, (None,) * 6, (None,) * 6)
    lags = refreshed_at({"t": [3, -1, 8, 0]}, {"t": [10, 10, 8, 5]})
    assert lags_of_items(followed, lags) == {"t-0": 7, "t-2": 0}
    assert owners_of(followed) == {TopicPartition("t", p): "x" for p in (0, 1, 2)}


def test_a_task_is_behind_by_all_that_it_reads() -> None:
    cluster = ClusterView.of({"a": [[], []], "b": [[], []]})
    followed = Followed("g", cluster, ("x",) * 4, (None,) * 4, ("0_0", "0_1", "0_0", "0_1"))
    lags = refreshed_at({"a": [1, 2], "b": [3, -1]}, {"a": [11, 2], "b": [8, 9]})
    assert lags_of_items(followed, lags) == {"0_0": 15}, "of 0_1 not all is known"


def test_standbys_keep_the_lag_that_their_threads_show() -> None:
    decision = led(group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2")), configs=ONE_STANDBY)
    picture = rebalance_picture(tasks(decision))
    lagging = with_lags(picture, Lags(10.0, {"1_0": 77}), 12.5)
    pairs = [
        (old, new)
        for h, g in zip(picture.holders, lagging.holders, strict=True)
        for old, new in zip(h.items, g.items, strict=True)
    ]
    changed = [new for old, new in pairs if new != old]
    assert [(item.name, item.lag, item.lag_age_ms) for item in changed] == [("1_0", 77, 2_500)]
    assert changed[0].state not in ("standby", "warm-up")
    assert sum(old.name == "1_0" for old, _ in pairs) == 2, "there is a standby of it too"


def test_of_a_group_that_nobody_leads_there_is_no_picture() -> None:
    assert LagWatch(LedRebalances()).picture("g") is None


@pytest.mark.embedded
async def test_a_refresh_has_lags_read() -> None:
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
        commits = [At("orders", p, at) for p, at in ((0, 0), (1, 3), (2, 3))]
        consumer.commit(offsets=commits, asynchronous=False)
        consumer.close()
        before, after, later = await refreshed(brokers)
    assert set(reported(before).values()) == {None}
    assert reported(after) == {"orders-0": 5, "orders-1": 0, "orders-2": 1, "orders-3": None}
    assert after is not None
    assert after.lag_report is not None
    assert (after.lag_report.summary.lag, after.lag_report.summary.unknown) == (6, 1)
    assert after.lag_report.partitions[1].verdict is LagVerdict.OK
    assert set(reported(later).values()) == {None}, "what is old says nothing"


@pytest.mark.embedded
async def test_a_led_group_is_refreshed_although_nobody_asks_until_it_is_led_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(led_lags, "INTERVAL_S", 0.05)
    with EmbeddedCluster() as brokers:
        brokers.create_topic("orders", 4)
        await unasked(brokers)


async def unasked(brokers: EmbeddedCluster) -> None:
    rebalances, received = LedRebalances(), list[GroupLag]()
    rebalance_of_two = planned(decided(member("a", "az1"), member("b", None)))
    rebalances.on_decision(rebalance_of_two)
    refreshed_at = asyncio.Event()

    def receive(_: str, lag: GroupLag) -> None:
        received.append(lag)
        refreshed_at.set()

    watch = LagWatch(rebalances, [receive])
    watch.on_decision(rebalance_of_two)
    transport = EmbeddedTransport(brokers.properties)
    await transport.start()
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    reader = OffsetReader(cluster, transport, Describer(transport))
    beside = asyncio.create_task(watch.beside(reader, transport, cluster.admin))
    try:
        async with asyncio.timeout(60 * PATIENCE):
            await refreshed_at.wait()
        beside.cancel()
        assert [partition.member for partition in received[0].partitions()].count(None) == 0
        watch.on_note("g", Note(NoteKind.LEFT, "told to"))
        reported_before = len(received)
        await watch.refresh("g", reader, cluster.admin)
        assert len(received) == reported_before
    finally:
        reader.close()
        cluster.close()
        await transport.close()


async def refreshed(brokers: EmbeddedCluster) -> tuple[Picture | None, Picture | None, Picture | None]:
    """The picture at the first request, as soon as it has lags, and long after that."""
    rebalances, now = LedRebalances(), [100.0]
    rebalances.on_decision(planned(decided(member("a", "az1"), member("b", None))))
    watch = LagWatch(rebalances, clock=lambda: now[0])
    transport = EmbeddedTransport(brokers.properties)
    await transport.start()
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    reader = OffsetReader(cluster, transport, Describer(transport))
    beside = asyncio.create_task(watch.beside(reader, transport, cluster.admin))
    try:
        before = after = watch.picture("g")
        async with asyncio.timeout(60 * PATIENCE):
            while set(reported(after).values()) == {None}:
                await asyncio.sleep(0.05)
                now[0] += 0.3
                after = watch.picture("g")
        beside.cancel()
        now[0] += OLD_S + 4.0
        return before, after, watch.picture("g")
    finally:
        cluster.close()
        await transport.close()


def test_the_rest_of_a_picture_stays() -> None:
    picture = rebalance_picture(planned(decided(member("a", "az1"))))
    assert with_lags(picture, Lags(0.0, {}), 1.0) == picture
