"""The lines of the interoperability matrix for Streams applications: three instances with a standby, in one life."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import CURRENT, STREAMS_39
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import application, failures, generation_of, led, strangers
from tests.interop.support.streams_load import Load
from tests.lab.matrix import LIMIT_S, RELEASES, STREAMS_TASKS, Line, Outcome

SESSION_MS = 6_000
RETURN_SESSION_MS = 60_000
QUIET_S = 2.0
EAGER = {"upgrade.from": "2.3"}  # what makes Streams 3.9 speak the eager protocol


def run_streams(release: str, line: Line) -> Outcome:
    """An application of dynamic members through its life, then one of static members."""
    jars, _ = RELEASES[release]
    outcome = Outcome(line.name)
    with (
        KafkaCluster(nodes=1, racks=("az1",), heap_mb=512, release=jars) as cluster,
        tempfile.TemporaryDirectory(prefix="bellwether-matrix-") as folder,
    ):
        _life(cluster, Path(folder), line, outcome)
        _static(cluster, Path(folder), line, outcome)
    return outcome


def _life(cluster: KafkaCluster, folder: Path, line: Line, outcome: Outcome) -> None:
    app = _application(cluster, line, line.name, SESSION_MS)

    def started(app: StreamsApp) -> None:
        app.add("one")
        app.add("two")

    steps: dict[str, Callable[[StreamsApp], object]] = {
        "plan": started,
        "join": lambda app: app.add("three"),
        "leave": lambda app: app.instances["one"].stop(),
        "crash": lambda app: app.instances["two"].kill(),
    }
    with (
        led(cluster, app, folder) as lead,
        StreamsApp(cluster, app) as running,
        Load(cluster, app.topics[0], keys=50) as load,
    ):
        load.produce(500)
        for name, step in steps.items():
            if not _step(cluster, running, name, step, outcome):
                outcome.failed[-1] += f"\nbellwether:\n{lead.log_of(app.application_id, 30)}"
                return


def _static(cluster: KafkaCluster, folder: Path, line: Line, outcome: Outcome) -> None:
    app = _application(cluster, line, f"{line.name}-static", RETURN_SESSION_MS)
    with led(cluster, app, folder), StreamsApp(cluster, app) as running, Load(cluster, app.topics[0], keys=50) as load:
        load.produce(500)

        def returned(app: StreamsApp) -> None:
            app.instances["one"].kill()
            app.start("one", settings={"main.consumer.group.instance.id": "one"})

        def started(app: StreamsApp) -> None:
            for name in ("one", "two"):
                app.add(name, settings={"main.consumer.group.instance.id": name})

        if _step(cluster, running, "both instances", started, outcome):
            _step(cluster, running, "static return", returned, outcome)


def _application(cluster: KafkaCluster, line: Line, name: str, session_ms: int) -> Application:
    release = CURRENT if line.kind == "streams" else STREAMS_39
    settings = EAGER if line.way == "eager" else {}
    app = application(cluster, name, session_timeout_ms=session_ms, release=release, settings=settings)
    assert len(app.tasks) == STREAMS_TASKS
    return app


def _step(
    cluster: KafkaCluster, app: StreamsApp, name: str, work: Callable[[StreamsApp], object], outcome: Outcome
) -> bool:
    group = app.application.application_id
    began = time.monotonic()
    before = generation_of(cluster, group) if name == "static return" else 0
    try:
        work(app)
        app.wait_settled(limit_s=LIMIT_S, quiet_s=QUIET_S)
        ended = time.monotonic() - min(instance.quiet_s for instance in app.live)
        took_s = max(0.0, ended - began - _starting_s(app, began))
        assert strangers(cluster, group) == []
        assert app.timeline().overlaps() == []
        assert failures(app) == []
        if name == "join":
            assert (_stopped(app, began) == app.application.tasks) == (app.application.settings == EAGER), "other way"
    except AssertionError as error:
        outcome.cells[name] = "FAILED"
        outcome.failed.append(f"{group}, {name}: {error}")
        return False
    same = name == "static return" and generation_of(cluster, group) == before
    outcome.cells[name] = f"{took_s:.1f} s" + (", no rebalance" if same else "")
    return True


def _starting_s(app: StreamsApp, began: float) -> float:
    """How long the youngest process took until it called start(), since this step began."""
    called = [h.t_ms for h in app.timeline().ordered if h.event == "state" and h.message["before"] == "CREATED"]
    return max(0.0, (max(called) - _wall_ms(began)) / 1000)


def _stopped(app: StreamsApp, began: float) -> set[str]:
    """The tasks that did not run for a while, since this step began: all of them where members are eager."""
    since_ms = _wall_ms(began)
    return {h.message["task"] for h in app.timeline().ordered if h.event == "suspended" and h.t_ms >= since_ms}


def _wall_ms(monotonic: float) -> float:
    return (time.time() - time.monotonic() + monotonic) * 1000
