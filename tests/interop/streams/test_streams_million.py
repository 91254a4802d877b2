"""A million records through a Streams application while everything happens to it that may: `make prove-streams`."""

import random
import time
from pathlib import Path

import pytest

from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, failures, generation_of, led, led_by_java, sending, strangers
from tests.interop.support.streams_load import Load

RECORDS = 1_000_000
KEYS = 50_000
PER_SECOND = 2_000
LIMIT_S = 240.0

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1_000)]


def at_a_random_moment(what: str, until_s: float) -> None:
    """Waits; how long is in the report of a failure."""
    delay_s = random.uniform(0, until_s)
    print(f"{time.strftime('%X')} {what} in {delay_s:.2f} s")
    time.sleep(delay_s)


def led_by(cluster: KafkaCluster, group: str) -> str:
    return "bellwether" if rebalances(cluster, group)[-1].leader.startswith(INSTANCE) else "java"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_million_records_are_counted_through_everything(kafka: KafkaCluster, tmp_path: Path, guarantee: str) -> None:
    """Growth, kill -9 of an instance, kill -9 of Bellwether at a random moment beside a standby, and
    kill -9 of that one, too."""
    name = f"million-{guarantee}"
    common = application(
        kafka, name, standbys=1, threads=2, partitions=6, guarantee=guarantee, acceptable_recovery_lag=1_000
    )
    began = time.monotonic()
    with (
        led(kafka, common, tmp_path, control_topic=f"{name}-control", session_timeout_ms=10_000) as lead,
        led(kafka, common, tmp_path, control_topic=f"{name}-control", session_timeout_ms=10_000) as second,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], KEYS) as load,
        sending(lead, app),
        sending(second, app),
    ):
        load.produce(RECORDS // 2)
        for number in (1, 2):
            app.add(f"i{number}", f"az{number}")
        app.wait_settled(spread=1, limit_s=LIMIT_S)
        load.start(PER_SECOND)

        app.add("i3", "az3")
        app.wait_settled(spread=1, limit_s=LIMIT_S)
        app.instances["i1"].kill()
        assert set(app.wait_settled(limit_s=LIMIT_S).values()) == {"i2", "i3"}
        assert strangers(kafka, name) == []

        app.start("i1")
        at_a_random_moment("kill -9 of bellwether", 8)
        lead.kill()
        app.wait_settled(limit_s=LIMIT_S)
        print(f"led by {led_by(kafka, name)} after the first kill -9")

        app.instances["i2"].kill()
        app.start("i2")
        at_a_random_moment("kill -9 of the one that stood by", 8)
        generation = generation_of(kafka, name)
        second.kill()
        wait_until(lambda: led_by_java(kafka, name, generation), LIMIT_S, app.send)
        app.wait_settled(limit_s=LIMIT_S)

        load.stop()
        load.produce(max(0, RECORDS - load.produced))
        totals = app.wait_counted(load.expected, exactly_once=guarantee != "at_least_once", limit_s=LIMIT_S)
        again = totals.seen - totals.distinct
        print(f"{guarantee}: {totals.distinct} records, {again} counted again, {time.monotonic() - began:.0f} s")
        assert app.timeline().overlaps() == []
        assert failures(app) == []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_million_records_are_counted_when_bellwether_goes_in_order(
    kafka: KafkaCluster, tmp_path: Path, guarantee: str
) -> None:
    """It is stopped, leaves the group and never comes back: nothing crashed, so nothing is counted twice."""
    name = f"million-goes-{guarantee}"
    common = application(
        kafka, name, standbys=1, threads=2, partitions=6, guarantee=guarantee, acceptable_recovery_lag=1_000
    )
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], KEYS) as load,
        sending(lead, app),
    ):
        load.produce(RECORDS // 2)
        for number in (1, 2):
            app.add(f"i{number}", f"az{number}")
        app.wait_settled(spread=1, limit_s=LIMIT_S)
        load.start(PER_SECOND)
        app.add("i3", "az3")
        at_a_random_moment("SIGTERM of bellwether", 8)
        assert lead.stop() == 0
        app.wait_settled(limit_s=LIMIT_S)
        assert led_by_java(kafka, name, 0)
        load.stop()
        load.produce(max(0, RECORDS - load.produced))
        totals = app.wait_counted(load.expected, limit_s=LIMIT_S)
        print(f"{guarantee}: {totals.distinct} records, {totals.seen - totals.distinct} counted again")
        assert app.timeline().overlaps() == []
        assert failures(app) == []
