"""The lines of the interoperability matrix for Streams applications: three instances with a standby, in one life."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.interop.brokers import KafkaCluster
from tests.interop.jvm import CURRENT, STREAMS_39, Release
from tests.interop.matrix import LIMIT_S, RELEASES, Line, Outcome
from tests.interop.streams_app import StreamsApp
from tests.interop.streams_led import application, failures, generation_of, led, strangers
from tests.interop.streams_load import Load

SESSION_MS = 6_000
RETURN_SESSION_MS = 60_000
QUIET_S = 2.0


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
    app = application(cluster, line.name, session_timeout_ms=SESSION_MS, release=_release(line))

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
                outcome.failed[-1] += f"\nbellwether:\n{lead.said_of(app.application_id, 30)}"
                return


def _static(cluster: KafkaCluster, folder: Path, line: Line, outcome: Outcome) -> None:
    app = application(cluster, f"{line.name}-static", session_timeout_ms=RETURN_SESSION_MS, release=_release(line))
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


def _release(line: Line) -> Release:
    return CURRENT if line.kind == "streams" else STREAMS_39


def _step(
    cluster: KafkaCluster, app: StreamsApp, name: str, work: Callable[[StreamsApp], object], outcome: Outcome
) -> bool:
    group = app.application.application_id
    began = time.monotonic()
    before = generation_of(cluster, group) if name == "static return" else 0
    try:
        work(app)
        app.wait_settled(limit_s=LIMIT_S, quiet_s=QUIET_S)
        took_s = max(0.0, time.monotonic() - began - min(instance.quiet_s for instance in app.live))
        assert strangers(cluster, group) == []
        assert app.timeline().overlaps() == []
        assert failures(app) == []
    except AssertionError as error:
        outcome.cells[name] = "FAILED"
        outcome.failed.append(f"{group}, {name}: {error}")
        return False
    same = name == "static return" and generation_of(cluster, group) == before
    outcome.cells[name] = f"{took_s:.1f} s" + (", no round" if same else "")
    return True
