"""Kafka's StreamsResetter on an application that Bellwether leads with a topology file, and another version of it
afterwards."""

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support.bellwether import INSTANCE, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT_WITH_APPLICATIONS
from tests.interop.support.jvm import java
from tests.interop.support.members import wait_until
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import (
    application,
    create_internal_topics,
    failures,
    generation_of,
    led,
    led_by_java,
    sending,
    until_app_is_led,
)
from tests.interop.support.streams_load import Load

pytestmark = pytest.mark.timeout(600)
SESSION_MS = 6_000
SEVERAL_REFRESHES_S = 12.0  # of Bellwether into an empty group, in which Bellwether once made everything again
RETURN_S = 150
# A slow machine may cost Bellwether a group that is led; what is shown here is what comes after.
OPTIONS: dict[str, Any] = {"stores": "persistent", "session_timeout_ms": 10_000, **PATIENT_WITH_APPLICATIONS}


def reset(kafka: KafkaCluster, app: Application, *options: str) -> subprocess.CompletedProcess[str]:
    """What kafka-streams-application-reset.sh runs."""
    words = ["--bootstrap-server", kafka.bootstrap, "--application-id", app.application_id]
    words += ["--input-topics", ",".join(app.topics), *options]
    command = java().command("org.apache.kafka.tools.StreamsResetter", *words, options=("-Xmx128m",))
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def internal_topics(kafka: KafkaCluster, app: Application) -> list[str]:
    endings = ("-repartition", "-changelog")
    topics = kafka.admin.list_topics(timeout=10).topics
    return sorted(t for t in topics if t.startswith(f"{app.application_id}-") and t.endswith(endings))


def led_by_bellwether(kafka: KafkaCluster, group: str) -> bool:
    completed = rebalances(kafka, group)
    return bool(completed) and completed[-1].leader.startswith(INSTANCE)


def stop_and_forget(app: StreamsApp, name: str) -> None:
    """Stops an instance and deletes its local state, as the tool demands."""
    assert app.instances[name].stop() == 0, app.send()
    shutil.rmtree(app.instances[name].home / "state")


def test_an_application_is_reset_as_an_operator_does_it(kafka: KafkaCluster, tmp_path: Path) -> None:
    """`leave`, stop, reset; the new version has one more store, and starts under its own topology file."""
    old = application(kafka, "reset-told", session_timeout_ms=SESSION_MS)
    new, group = replace(old, topology="v2"), old.application_id

    def ordered(*words: str) -> None:
        ended = run_to_end([*words, "--bootstrap", kafka.bootstrap])
        assert ended.code == 0, ended.text

    with StreamsApp(kafka, old) as app, Load(kafka, old.topics[0], keys=200) as load:
        load.produce(1_000)
        with led(kafka, old, tmp_path, **OPTIONS) as lead, sending(lead, app):
            app.add("one")
            app.wait_settled()
            wait_until(lambda: led_by_bellwether(kafka, group), RETURN_S, app.send)
            app.wait_counted(load.expected)
            ordered("leave", group)
            wait_until(lambda: not lead.is_member(group), 30, lead.tail)
            stop_and_forget(app, "one")
            wait_until(lambda: not describe(kafka.bootstrap, group).members, 60, lead.tail)
            done = reset(kafka, old)
            assert done.returncode == 0, done.stdout + done.stderr
            ordered("resume", group)
            wait_until(lambda: lead.is_member(group), 60, lead.tail)
            (noticed,) = lead.logged("application_reset")
            assert noticed["action"] == "nothing is made until members come"
            time.sleep(SEVERAL_REFRESHES_S)
            assert internal_topics(kafka, old) == [], "topics of the old version were made again"
        app.application = new
        with led(kafka, new, tmp_path, **OPTIONS) as lead, sending(lead, app):
            lead.logged("membership", what="LEADING")  # the process itself: the membership of the one before it lasts
            before = generation_of(kafka, group)
            app.start("one")
            app.wait_settled()
            app.wait_counted(load.expected)
            assert not led_by_java(kafka, group, before)
            assert generation_of(kafka, group) > before
            assert internal_topics(kafka, new) == sorted(
                {*new.sources[1], *new.sources[2], *new.changelogs[1], *new.changelogs[2]}
            )
        assert failures(app) == []


def test_a_version_after_a_reset_that_nobody_reported_is_left_to_java(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The file is not attested, no order to leave was given, and the new version subscribes to the same topics."""
    old = application(kafka, "reset-untold", session_timeout_ms=SESSION_MS)
    new, group = replace(old, topology="v3"), old.application_id
    create_internal_topics(kafka, old)
    options = {**OPTIONS, "topology_attested": False}
    with StreamsApp(kafka, old) as app, Load(kafka, old.topics[0], keys=200) as load:
        load.produce(1_000)
        with led(kafka, old, tmp_path, **options) as lead, sending(lead, app):
            app.add("one")
            app.wait_settled()
            wait_until(lambda: led_by_bellwether(kafka, group), RETURN_S, app.send)
            stop_and_forget(app, "one")
            refused = reset(kafka, old)
            assert refused.returncode == 1, "we are a member of the group"
            assert "is still active" in refused.stdout + refused.stderr, refused.stdout + refused.stderr
            done = reset(kafka, old, "--force")
            assert done.returncode == 0, done.stdout + done.stderr
            wait_until(lambda: lead.is_member(group), 60, lead.tail)
            time.sleep(SEVERAL_REFRESHES_S)
            assert internal_topics(kafka, old) == [], "topics of the old version were made again"
            before = generation_of(kafka, group)
            app.application = new
            app.start("one")
            wait_until(lambda: led_by_java(kafka, group, before), RETURN_S, app.send)
            app.wait_settled()
            app.wait_counted(load.expected)
            reasons = [line["reason"] for line in lead.logged("membership", what="REFUSED")]
            assert "are gone, as after a reset" in reasons[0], reasons
            contradicted = lead.logged("topology_contradicted", 60)  # once for each generation that Java leads
            assert all("in the topology file" in line["reason"] for line in contradicted)
            assert not led_by_bellwether(kafka, group), "it was led by the old topology"
        with led(kafka, new, tmp_path, **options) as lead, sending(lead, app):
            until_app_is_led(kafka, app, lead, RETURN_S)
            app.wait_settled()
            load.produce(500)
            app.wait_counted(load.expected, exactly_once=False)
        assert failures(app) == []
