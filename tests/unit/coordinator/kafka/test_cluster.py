"""Reads of embedded brokers: racks, absent and refused topics, silence, and the watch that turns them into reasons."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka.client import ClusterReader, ClusterUnreachableError, MetadataWatch
from bellwether_kafka.coordinator.kafka.client.cluster import unreachable_sentence
from bellwether_kafka.coordinator.kafka.client.metadata_watch import WatchRules
from tests.kit.brokers import EmbeddedCluster

pytestmark = pytest.mark.embedded
Answer = TypeVar("Answer")
NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", 6, 2)
        cluster.create_topic("payments", 3, 1)
        cluster.create_topic("secret", 3, 1)
        cluster.set_topic_error("secret", KafkaError.TOPIC_AUTHORIZATION_FAILED)
        yield cluster


@pytest.fixture
def reader(brokers: EmbeddedCluster) -> Iterator[ClusterReader]:
    reader = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    yield reader
    reader.close()


async def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return await asyncio.wait_for(work, 30)


async def test_a_snapshot_has_partitions_and_racks(reader: ClusterReader) -> None:
    view = await run(reader.snapshot(["payments", "orders"], 0))
    assert view.topics == ("orders", "payments")
    assert view.counts.tolist() == [6, 3]
    assert view.racks == ("az1", "az2", "az3")
    assert view.signature_racks[view.signature].sum(axis=1).tolist() == [2] * 6 + [1] * 3
    leaders = view.leader_rack[:6]
    assert view.signature_racks[view.signature[:6], leaders].all()


async def test_a_topic_that_is_not_there_is_left_out_and_not_created(
    brokers: EmbeddedCluster, reader: ClusterReader
) -> None:
    view = await run(reader.snapshot(["orders", "nowhere"], 0))
    assert (view.topics, view.unreadable) == (("orders",), frozenset())
    again = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    assert (await run(again.snapshot(["nowhere"], 0))).topics == ()
    again.close()


async def test_a_topic_that_may_not_be_read_is_unreadable_and_not_gone(reader: ClusterReader) -> None:
    view = await run(reader.snapshot(["orders", "secret"], 0))
    assert (view.topics, view.unreadable) == (("orders",), {"secret"})


async def test_a_name_that_no_broker_accepts_harms_nobody_else(reader: ClusterReader) -> None:
    view = await run(reader.snapshot(["orders", "x" * 600], 0))
    assert view.topics == ("orders",)


async def test_many_topics_are_read_at_once_with_the_same_answer(
    reader: ClusterReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.kafka.client.cluster.ONE_BY_ONE_LIMIT", 1)
    view = await run(reader.snapshot(["orders", "payments", "nowhere", "secret"], 0))
    assert (view.topics, view.unreadable) == (("orders", "payments"), {"secret"})
    assert view.counts.tolist() == [6, 3]


async def test_a_young_read_is_used_again_and_an_old_one_is_not(brokers: EmbeddedCluster) -> None:
    now = [100.0]
    reader = ClusterReader({"bootstrap.servers": brokers.bootstrap}, clock=lambda: now[0])

    async def reads() -> list[float]:
        first = await reader.snapshot(["orders"], 1_000)
        now[0] += 0.75
        second = await reader.snapshot(["orders"], 1_000)
        now[0] += 0.75
        third = await reader.snapshot(["orders"], 1_000)
        return [first.read_at, second.read_at, third.read_at]

    assert await run(reads()) == [100.0, 100.0, 101.5]
    reader.close()


async def test_racks_of_a_broker_that_is_down_are_remembered() -> None:
    with EmbeddedCluster() as own:
        own.create_topic("orders", 6, 2)
        reader = ClusterReader({"bootstrap.servers": own.bootstrap, "log_level": "0"})

        async def reads() -> tuple[list[list[bool]], list[list[bool]], frozenset[int]]:
            before = await reader.snapshot(["orders"], 0)
            own.set_broker_down(2)
            after = await reader.snapshot(["orders"], 0)
            assert reader.last_read is not None
            return (
                before.signature_racks[before.signature].tolist(),
                after.signature_racks[after.signature].tolist(),
                reader.last_read.online,
            )

        before, after, online = await run(reads())
        reader.close()
    assert before == after
    assert online == {1, 3}


async def test_silent_brokers_are_one_sentence_naming_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.kafka.client.cluster.REQUEST_TIMEOUT_S", 1.0)
    reader = ClusterReader({"bootstrap.servers": NOWHERE, "log_level": "0"})
    with pytest.raises(ClusterUnreachableError, match=rf"{NOWHERE} answered within 1 s; check bootstrap\.servers"):
        await run(reader.nodes())
    reader.close()


async def test_the_nodes_are_all_brokers(reader: ClusterReader) -> None:
    assert len(await run(reader.nodes())) == 3


async def test_old_reads_serve_while_brokers_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.kafka.client.cluster.REQUEST_TIMEOUT_S", 1.0)
    with EmbeddedCluster() as own:
        own.create_topic("orders", 6)
        reader = ClusterReader({"bootstrap.servers": own.bootstrap, "log_level": "0"})

        async def reads() -> tuple[int, float, float]:
            before = await reader.snapshot(["orders"], 0)
            for broker in (1, 2, 3):
                own.set_broker_down(broker)
            after = await reader.snapshot(["orders"], 0)
            with pytest.raises(ClusterUnreachableError):
                await reader.snapshot(["never-read"], 0)
            return after.partition_total, before.read_at, after.read_at

        total, before, after = await run(reads())
        reader.close()
    assert (total, before) == (6, after)


async def test_the_watch_shows_the_group_that_is_concerned(brokers: EmbeddedCluster, reader: ClusterReader) -> None:
    reported: list[tuple[str, str]] = []

    async def watch() -> None:
        watch = MetadataWatch(reader, lambda group, reason, _: reported.append((group, reason)))
        for group, topics in (("a", {"orders", "refunds"}), ("b", {"orders"})):
            watch.follow(group, topics, await reader.snapshot(topics, 0), rack_aware=True)
        await watch.poll()
        brokers.create_topic("refunds", 2)
        await watch.poll()
        watch.follow("a", {"orders", "refunds"}, await reader.snapshot({"orders", "refunds"}, 0), rack_aware=True)
        await watch.poll()
        watch.forget("a")
        watch.forget("b")
        await watch.poll()

    await run(watch())
    assert reported == [("a", "topic refunds appeared with 2 partitions")]


async def test_a_change_that_would_do_more_harm_than_good_is_not_followed(
    brokers: EmbeddedCluster, reader: ClusterReader
) -> None:
    """A grown source topic made Bellwether rebalance, refuse, and leave the application to a Java leader, which failed
    it."""
    reported: list[tuple[str, str]] = []
    asked: list[int] = []

    def objection(view: ClusterView) -> str:
        asked.append(view.partition_total)
        return "its repartition topic is too small"

    async def watch() -> None:
        watch = MetadataWatch(reader, lambda group, reason, _: reported.append((group, reason)))
        topics = {"orders", "late"}
        view = await reader.snapshot(topics, 0)
        watch.follow("a", topics, view, rack_aware=False, objection=objection)
        watch.follow("b", topics, view, rack_aware=False, objection=lambda _: "")
        await watch.poll()
        brokers.create_topic("late", 2)
        await watch.poll()

    await run(watch())
    assert reported == [("b", "topic late appeared with 2 partitions")]
    assert len(asked) == 1


async def test_the_watch_survives_silence_and_keeps_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.kafka.client.cluster.REQUEST_TIMEOUT_S", 0.2)
    reader = ClusterReader({"bootstrap.servers": NOWHERE, "log_level": "0"})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    async def watch() -> None:
        watch = MetadataWatch(reader, lambda group, reason, _: None, interval_ms=10_000, sleep=sleep, seed=7)
        empty = reader._cache.read([], now=0.0)
        from bellwether_kafka.coordinator.kafka.client.metadata import cluster_view

        watch.follow("a", {"orders"}, cluster_view(empty), rack_aware=False)
        with pytest.raises(asyncio.CancelledError):
            await watch.run()

    await run(watch())
    reader.close()
    assert len(set(slept)) == 3
    assert all(9.0 <= seconds <= 11.0 for seconds in slept)


async def test_the_watch_survives_an_error_of_bellwether(brokers: EmbeddedCluster, reader: ClusterReader) -> None:
    polls: list[str] = []

    async def sleep(_: float) -> None:
        polls.append("poll")
        if len(polls) == 3:
            raise asyncio.CancelledError

    def fails(group: str, reason: str, _: str) -> None:
        raise ValueError(reason)

    async def watch() -> None:
        watch = MetadataWatch(reader, fails, sleep=sleep)
        watch.follow("a", {"orders"}, await reader.snapshot([], 0), rack_aware=False)
        with pytest.raises(asyncio.CancelledError):
            await watch.run()

    await run(watch())
    assert len(polls) == 3


async def test_rack_changes_wait_for_the_hold_down() -> None:
    now = [0.0]
    reported: list[str] = []
    with EmbeddedCluster() as own:
        own.create_topic("orders", 6, 1)
        reader = ClusterReader({"bootstrap.servers": own.bootstrap, "log_level": "0"}, clock=lambda: now[0])

        async def watch() -> None:
            watch = MetadataWatch(
                reader,
                lambda group, reason, _: reported.append(reason),
                rules=WatchRules(hold_down_ms=15_000),
                clock=lambda: now[0],
            )
            watch.follow("a", {"orders"}, await reader.snapshot({"orders"}, 0), rack_aware=True)
            own.set_broker_down(2)
            for _ in range(3):
                now[0] += 10
                await watch.poll()
            assert reported == []
            own.set_broker_up(2)
            own.set_rack(2, "az9")
            for _ in range(3):
                now[0] += 10
                await watch.poll()

        await run(watch())
        reader.close()
    assert reported == ["the racks of replicas changed for orders"]


def test_a_refused_login_names_the_sasl_settings() -> None:
    error = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication failed")
    sentence = unreachable_sentence("b:9092", [error, error], 10)
    assert sentence == (
        "The brokers at b:9092 refused the login; check sasl.username and sasl.password (SASL authentication failed)."
    )


async def test_threads_end_with_the_reader(brokers: EmbeddedCluster) -> None:
    reader = ClusterReader({"bootstrap.servers": brokers.bootstrap})
    await run(reader.snapshot(["orders"], 0))
    reader.close()
    for thread in threading.enumerate():
        if thread.name.startswith("cluster-reader"):
            thread.join()


RESOLVE = "Failed to resolve 'b1.internal:9092': Name or service not known"
DEAD = f"b1.internal:9092/1: {RESOLVE} (after {{}}ms in state CONNECT)"


def test_an_advertised_address_that_does_not_work_is_named() -> None:
    """The bootstrap server had answered, and the sentence was to check bootstrap.servers."""
    errors = [KafkaError(KafkaError._RESOLVE, DEAD.format(took_ms)) for took_ms in (1, 2)]
    waiting = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller")
    sentence = unreachable_sentence("b:9092", [waiting, *errors], 10)
    assert sentence.startswith("A broker at b:9092 answered, but the addresses that brokers advertise do not work")
    assert sentence.count("b1.internal:9092/1: Failed to resolve") == 1
    assert "advertised.listeners" in sentence
    down = unreachable_sentence("b:9092", [waiting, *errors], 10, answered=True)
    assert "advertise" not in down, "the brokers are down, or the network is"
    assert "b1.internal:9092/1" in down


def test_what_the_library_says_of_bootstrap_servers_is_kept() -> None:
    said = "b:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused"
    took = f"{said} (after 0ms in state CONNECT, 1 identical error(s) suppressed)"
    sentence = unreachable_sentence("b:9092", [KafkaError(KafkaError._TRANSPORT, text) for text in (said, took)], 10)
    assert sentence.endswith(f"check bootstrap.servers and security.protocol ({said}).")
