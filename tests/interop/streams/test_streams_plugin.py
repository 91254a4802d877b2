"""A task assignor of a third party (KIP-924's API in Python) decides for a live Kafka Streams application; and when it
fails, nobody loses a task."""

from pathlib import Path

import pytest

from tests.interop.support.assignors.plugins import install
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, failures, led, sending, strangers
from tests.interop.support.streams_load import Load
from tests.paths import ROOT

SETTLE_S = 120
EXAMPLE = ROOT / "tests" / "unit" / "assignors" / "streams" / "api" / "example_assignor.py"
MOODY = '''

class Moody(StateFirst):
    """Does its work for two processes, and not for three."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        if len(application_state.kafka_streams_states(compute_task_lags=False)) > 2:
            raise RuntimeError("three is a crowd")
        return super().assign(application_state)
'''

pytestmark = pytest.mark.timeout(400)


def test_a_plug_in_decides_and_when_it_fails_everybody_keeps_what_it_has(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = install(tmp_path / "plugins", {"moody": "Moody"}, EXAMPLE.read_text() + MOODY)
    monkeypatch.setenv("PYTHONPATH", environment)
    common = application(kafka, "lead-plugin", session_timeout_ms=6_000)
    with (
        led(kafka, common, tmp_path, policy="moody") as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(2_000)
        for name in ("one", "two"):
            app.add(name)
        owners = app.wait_settled(limit_s=SETTLE_S)
        made = lead.log("streams_decision", policy="moody", source="plan")
        assert made
        assert not any(entry["warnings"] for entry in made)
        app.add("three")
        complaint = "three is a crowd"
        wait_until(
            lambda: any(complaint in str(entry["warnings"]) for entry in lead.log("streams_decision")), 60, lead.tail
        )
        app.wait_running("three")
        assert app.wait_settled(limit_s=SETTLE_S) == owners
        load.produce(1_000)
        app.wait_counted(load.expected)
        assert app.timeline().overlaps() == []
        assert strangers(kafka, common.application_id) == []
        assert failures(app) == []
