"""An application whose topology is not the one that Bellwether has, or whose tasks a plug-in starves, works again by
itself: every instance is RUNNING and the group commits again. With `-s` each test prints how long that took."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from tests.interop.support.assignors import starving_assignors
from tests.interop.support.assignors.plugins import install
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.streams_app import RUNNING, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import application, led
from tests.interop.support.streams_load import Load

pytestmark = [pytest.mark.broker, pytest.mark.proof, pytest.mark.timeout(900)]

LIMIT_S = 150.0
LEARN_S = 25.0  # of ordinary work before the upgrade


@dataclass(frozen=True, slots=True)
class Situation:
    """`before` runs first, with the topology that Bellwether has (`given`, `before` if empty); then instances are
    restarted one by one as `after`. An empty `before`: the application starts as `after`. `forgets`: an instance that
    ended starts without its state, so under another process id. `settings` are the application's; `policy` is one of
    PLUGINS."""

    name: str
    after: str
    before: str = "v1"
    given: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    forgets: bool = False
    policy: str = ""


SITUATIONS = (
    Situation("changelog", "v4"),
    Situation("second changelog", "v2"),
    Situation("repartition", "v5"),
    Situation("source", "v6"),
    Situation("removed store", "v1", before="v2"),
    Situation("wrong attestation", "v4", before="", given="v1"),
    Situation("wrong file", "v1", before="", given="v3"),
    Situation("wrong file, no state kept", "v1", before="", given="v3", forgets=True),
    Situation("wrong file, threads replaced", "v1", before="", given="v3", settings={"app.replaces": "true"}),
    Situation("plug-in without owners", "v1", before="", policy="drops"),
    Situation("plug-in for one member", "v1", before="", policy="greedy"),
)

PLUGINS = {"drops": "Drops", "greedy": "Greedy"}
PLUGIN_SOURCE = Path(starving_assignors.__file__)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", install(tmp_path / "plugins", PLUGINS, PLUGIN_SOURCE.read_text(encoding="utf-8")))


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_it_works_again_by_itself(kafka: KafkaCluster, situation: Situation, tmp_path: Path) -> None:
    name = f"hand-back-{SITUATIONS.index(situation)}"
    second = f"{name}-second"
    kafka.create_topic(second, 4)
    options = {"app.second": second, **situation.settings}
    common = application(kafka, name, session_timeout_ms=6_000, settings=options)
    first = situation.before or situation.after
    given = replace(common, topology=situation.given or first)
    settings: dict[str, Any] = {"policy": situation.policy} if situation.policy else {}
    with (
        led(kafka, given, tmp_path, **settings) as lead,
        StreamsApp(kafka, replace(common, topology=first)) as app,
        Load(kafka, common.topics[0], keys=50) as load,
    ):
        load.start(50)
        began = time.monotonic()
        for instance in ("one", "two"):
            app.add(instance)
        if situation.before:
            assert _until_working(kafka, app, situation, common), lead.tail()
            time.sleep(LEARN_S)
            began = _upgraded(app, replace(common, topology=situation.after))
        assert _until_working(kafka, app, situation, common), lead.tail()
        print(f"{situation.name}: {time.monotonic() - began:.0f} s")
        load.stop()


def _upgraded(app: StreamsApp, after: Application) -> float:
    """Restarts the instances one by one. Returns when the last one was started, by the monotonic clock."""
    for instance in ("one", "two"):
        app.instances[instance].stop()
        app.start(instance, after)
        began = time.monotonic()
    app.application = after
    return began


def _until_working(kafka: KafkaCluster, app: StreamsApp, situation: Situation, common: Application) -> bool:
    """Until the instances run and three polls in a row have shown commits. What ends is started again, as an
    orchestrator would."""
    limit, rows, before = time.monotonic() + LIMIT_S, 0, -1
    while time.monotonic() < limit:
        for name in [name for name, instance in app.instances.items() if not instance.alive]:
            app.instances[name].stop()
            if situation.forgets:
                shutil.rmtree(app.instances[name].home / "state", ignore_errors=True)
            app.start(name)
        running = len(app.live) == len(app.instances) and all(i.state == RUNNING for i in app.live)
        now = _committed(kafka, common.application_id)
        rows = rows + 1 if running and now > before >= 0 else 0
        before = now
        if rows >= 3:
            return True
        time.sleep(2.0)
    return False


def _committed(kafka: KafkaCluster, group: str) -> int:
    """The sum of what the group has committed."""
    answer = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    return sum(max(0, partition.offset) for partition in answer.topic_partitions or ())
