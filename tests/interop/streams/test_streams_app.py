"""The Streams application that tests lead: its counts are exact, and its own report of who ran what adds up."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import STREAMS_39, STREAMS_39_VERSION
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load, Totals
from tests.interop.support.streams_timeline import Happening, Timeline

PARTITIONS = 3


def application(cluster: KafkaCluster, name: str) -> Application:
    cluster.create_topic(f"{name}-in", PARTITIONS)
    cluster.create_topic(f"{name}-out", 1)
    return Application(
        name, (f"{name}-in",), f"{name}-out", PARTITIONS, threads=1, standbys=1, session_timeout_ms=6_000
    )


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_counts_are_exact_after_growth_a_crash_and_a_restart(kafka: KafkaCluster, guarantee: str) -> None:
    common = replace(application(kafka, f"streams-{guarantee}"), guarantee=guarantee)
    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=300) as load:
        load.produce(3_000)
        app.add("one", "az1")
        app.wait_settled()
        load.start(300)
        app.add("two", "az2")
        app.wait_settled()
        app.instances["one"].kill()
        assert set(app.wait_settled().values()) == {"two"}
        app.start("one")
        app.wait_settled()
        load.stop()
        app.wait_counted(load.expected, exactly_once=guarantee != "at_least_once")

        everything = app.timeline()
        assert everything.overlaps() == []
        assert app.instances["two"].stop() == 0
    killed_ms = next(h.t_ms for h in everything.ordered if h.event == "killed")
    assert max(everything.unowned_ms(common.tasks, killed_ms, killed_ms + 1_000).values()) == 1_000


def test_another_version_of_the_application_goes_on_where_the_old_one_stopped(kafka: KafkaCluster) -> None:
    old = application(kafka, "streams-versions")
    with StreamsApp(kafka, old) as app, Load(kafka, old.topics[0], keys=100) as load:
        load.produce(1_000)
        app.add("one")
        app.wait_settled()
        app.wait_counted(load.expected)
        for topology in ("v2", "v3"):
            assert app.instances["one"].stop() == 0
            load.produce(500)
            app.application = replace(old, topology=topology)
            app.start("one")
            app.wait_settled()
            app.wait_counted(load.expected)


def test_a_3_9_application_counts_as_well_and_subscribes_by_pattern(kafka: KafkaCluster) -> None:
    common = replace(application(kafka, "streams-39"), release=STREAMS_39, pattern="streams-39-in.*")
    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=100) as load:
        load.produce(1_000)
        app.add("one")
        app.wait_settled()
        app.wait_counted(load.expected)
        assert app.instances["one"].version == STREAMS_39_VERSION


def test_a_number_that_comes_after_a_higher_one_is_missing_until_then_and_late_afterwards(kafka: KafkaCluster) -> None:
    common = application(kafka, "streams-late")
    producer = Producer(kafka.client_config("admin", "admin"))
    with StreamsApp(kafka, common) as app:
        app.add("one")
        app.wait_settled()

        def wait_counted(*numbers: int, seen: int, missing: int, late: int) -> None:
            for number in numbers:
                producer.produce(common.topics[0], key="key", value=str(number))
            assert producer.flush(30) == 0

            def counted() -> bool:
                totals = app.totals()
                expected = (seen, seen, missing, late)
                return totals is not None and (totals.seen, totals.distinct, totals.missing, totals.late) == expected

            wait_until(counted, 30, lambda: f"{app.totals()}\n{app.send()}")

        wait_counted(1, 2, 5, seen=3, missing=2, late=0)
        wait_counted(4, seen=4, missing=1, late=1)
        wait_counted(3, 6, seen=6, missing=0, late=2)


def _reported(t_ms: int, instance: str, event: str, **message: object) -> Happening:
    return Happening(t_ms, instance, event, message)


def test_a_timeline_knows_gaps_overlaps_and_moves() -> None:
    line = Timeline(
        (
            _reported(0, "a", "running", task="0_0"),
            _reported(0, "a", "running", task="0_1"),
            _reported(100, "a", "suspended", task="0_0"),
            _reported(160, "b", "running", task="0_0"),
            _reported(200, "b", "running", task="0_1"),
            _reported(210, "a", "killed"),
            _reported(300, "b", "ended"),
        )
    )
    assert line.unowned_ms(("0_0", "0_1", "0_2"), 50, 250) == {"0_0": 60, "0_1": 0, "0_2": 200}
    assert line.overlaps() == ["0_1 ran on a and b for 10 ms"]
    assert line.moves(0, 300) == 2
    assert line.owners_at(170) == {"0_0": "b", "0_1": "a"}


def test_a_timeline_knows_who_came_back_later_than_its_session_lasts() -> None:
    def assigned(t_ms: int, instance: str, generation: int, *partitions: int) -> Happening:
        return _reported(t_ms, instance, "assigned", generation=generation, partitions=[["in", p] for p in partitions])

    others = (_reported(0, "a", "ended"), assigned(10, "b", 2, 0), assigned(11, "c", 2))
    assert Timeline((*others, assigned(12, "a", 2))).late(0, 100) == []
    assert Timeline((*others, assigned(30, "a", 3, 0))).late(0, 100) == ["a"]
    assert Timeline((*others, assigned(30, "a", 3, 0))).late(1, 100) == []
    assert Timeline(others).late(0, 100) == [], "it never came back"


def test_a_timeline_takes_only_long_pauses_for_stalls() -> None:
    def processed(t_ms: int, instance: str, tasks: Mapping[str, tuple[int, int, int]]) -> Happening:
        return _reported(t_ms, instance, "processed", tasks=tasks)

    line = Timeline(
        (
            processed(100, "a", {"0_0": (0, 90, 5)}),
            processed(1_200, "b", {"0_0": (1_090, 1_190, 7)}),
            processed(1_400, "b", {"0_0": (1_390, 1_395, 1)}),
        )
    )
    assert line.stalled_ms(("0_0",), 0, 1_400) == {"0_0": 1_000}
    assert line.stalled_ms(("0_1",), 0, 1_400) == {"0_1": 1_400}
    assert line.processed(0, 1_400) == {"0_0": 13}


def test_totals_distinguish_lost_from_doubled() -> None:
    right = Totals(keys=2, seen=10, distinct=10, missing=0, digest=77, late=0, windowed=10)
    assert right.complaint(right, exactly_once=True) is None
    doubled = replace(right, seen=11, windowed=12)
    assert doubled.complaint(right, exactly_once=False) is None
    assert "twice" in (doubled.complaint(right, exactly_once=True) or "")
    assert "lost" in (replace(right, windowed=9).complaint(right, exactly_once=False) or "")
    for wrong in (replace(right, missing=1), replace(right, digest=78), replace(right, keys=1), replace(right, late=1)):
        assert "counts per key" in (wrong.complaint(right, exactly_once=False) or "")
