"""A rolling restart to a version with one more store, which ends after the first of two instances: which tasks are
idle, for how long, and who leads. And an application that starts paused. With `-s` each test prints its figures."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import RUNNING, StreamsApp
from tests.interop.support.streams_led import application, led, sending
from tests.interop.support.streams_load import Load

pytestmark = [pytest.mark.broker, pytest.mark.proof, pytest.mark.timeout(900)]

WORK_S = 25.0  # of ordinary work before the restart
MIXED_S = 75.0  # for so long the application is half upgraded
AWAY_S = 12.0  # longer than a session: the other instance writes the changelogs meanwhile
LIMIT_S = 150.0


@contextmanager
def rolling(kafka: KafkaCluster, name: str, folder: Path, *, by: str) -> Iterator[tuple[StreamsApp, Bellwether | None]]:
    """Two instances that have worked for a while under this leader, of which the first has been away and has started
    as v2, with the store "sizes" beside "counts"."""
    common = application(kafka, name, session_timeout_ms=6_000, partitions=10)
    common = replace(common, acceptable_recovery_lag=10_000)
    with ExitStack() as stack:
        lead = stack.enter_context(led(kafka, common, folder, stores="persistent")) if by == INSTANCE else None
        app = stack.enter_context(StreamsApp(kafka, common))
        load = stack.enter_context(Load(kafka, common.topics[0], keys=200))
        if lead is not None:
            stack.enter_context(sending(lead, app))
        load.start(200)
        for instance in ("one", "two"):
            app.add(instance)
            app.wait_settled()
        app.wait_settled(spread=1)
        time.sleep(WORK_S)
        app.instances["one"].stop()
        time.sleep(AWAY_S)
        app.application = replace(common, topology="v2")
        app.start("one")
        yield app, lead


def idle(app: StreamsApp) -> int:
    return len(app.application.tasks) - sum(len(instance.running) for instance in app.live)


def ends_the_roll(app: StreamsApp) -> float:
    """Restarts the other instance; returns the seconds until all tasks run."""
    app.instances["two"].stop()
    began = time.monotonic()
    app.start("two")
    wait_until(
        lambda: not idle(app) and all(i.state == RUNNING for i in app.live), LIMIT_S, lambda: f"{idle(app)} tasks idle"
    )
    return time.monotonic() - began


def test_a_half_upgraded_application_is_handed_back_and_not_led_again(kafka: KafkaCluster, tmp_path: Path) -> None:
    name = "half-upgraded"
    with rolling(kafka, name, tmp_path, by=INSTANCE) as (app, lead):
        assert lead is not None
        wait_until(lambda: bool(app.instances["one"].running), LIMIT_S, lead.tail)
        began, before = time.monotonic(), idle(app)
        wait_until(lambda: "handed back" in _last_alert(lead, name), LIMIT_S, lead.tail)
        print(f"handed back {time.monotonic() - began:.0f} s after its first task ran; {before} of 30 tasks idle")
        last = rebalances(kafka, name)[-1].generation
        until = time.monotonic() + MIXED_S
        while time.monotonic() < until:
            time.sleep(1.0)
            assert not [r for r in rebalances(kafka, name, last) if r.leader.startswith(INSTANCE)], "it leads again"
        print(f"{idle(app)} of 30 tasks idle {MIXED_S:.0f} s later, before the other instance is restarted")
        print(f"all tasks run {ends_the_roll(app):.0f} s after the other instance was restarted")
        assert not [r for r in rebalances(kafka, name, last) if r.leader.startswith(INSTANCE)]


def test_a_java_leader_of_the_old_version_leaves_the_same_tasks_idle(kafka: KafkaCluster, tmp_path: Path) -> None:
    """What Bellwether is compared with."""
    name = "half-upgraded-java"
    with rolling(kafka, name, tmp_path, by="java") as (app, _):
        wait_until(lambda: bool(app.instances["one"].running), LIMIT_S, lambda: str(idle(app)))
        time.sleep(MIXED_S)
        assert idle(app), "the tasks of the restarted instance wait for a changelog that its leader does not know"
        print(f"{idle(app)} of 30 tasks idle {MIXED_S:.0f} s after the first task of the restarted instance ran")
        print(f"all tasks run {ends_the_roll(app):.0f} s after the other instance was restarted")


@pytest.mark.parametrize("restarted", [False, True], ids=["first start", "restart"])
def test_an_application_that_starts_paused_keeps_its_leader(
    kafka: KafkaCluster, tmp_path: Path, restarted: bool
) -> None:
    name = f"paused-{int(restarted)}"
    common = application(kafka, name, session_timeout_ms=6_000)
    paused = {"app.paused": "true"}
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=50) as load,
        sending(lead, app),
    ):
        load.start(50)
        for instance in ("one", "two"):
            app.add(instance, settings=None if restarted else paused)
        if restarted:
            app.wait_settled()
            time.sleep(WORK_S)
            for instance in ("one", "two"):
                app.instances[instance].stop()
            for instance in ("one", "two"):
                app.start(instance, settings=paused)
        wait_until(lambda: "may be paused" in _last_alert(lead, name), LIMIT_S, lead.tail)
        assert not [alert for alert in _alerts(lead, name) if "handed back" in alert]
        for instance in app.live:
            instance.send("resume")
        app.wait_settled()
        print(f"asked {len(lead.log('membership', what='REJOINING'))} times, and alerted: {_last_alert(lead, name)}")


def _alerts(lead: Bellwether, group: str) -> list[str]:
    return [line["reason"] for line in lead.log("membership", what="ALERT", group=group)]


def _last_alert(lead: Bellwether, group: str) -> str:
    return next(iter(_alerts(lead, group)[::-1]), "")
