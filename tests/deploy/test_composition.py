"""The composition's own files: the settings load, the topology is the application's, the smoke script tells what is
missing. `prove_dashboards` runs its checks against what is there."""

import sys
from pathlib import Path

import pytest

from assignors.streams.topology import Topology
from coordinator.settings import load
from coordinator.topology import load_topology
from tests.conftest import missing_tool
from tests.deploy.prove_dashboards import smoke
from tests.interop.jvm import ROOT, MissingToolError, java
from tests.interop.streams_app import Application
from tests.interop.streams_stage import write_topology

COMPOSE = ROOT / "deploy" / "compose"


def test_the_settings_load_and_name_the_groups_of_the_composition() -> None:
    settings = load(COMPOSE / "bellwether.toml", environ={"BELLWETHER_HTTP_ADDRESS": "0.0.0.0:9790"})
    assert [(group.name, group.kind, group.mode) for group in settings.groups] == [
        ("orders-view", "consumer", "lead"),
        ("counts", "streams", "lead"),
    ]
    composition = (ROOT / "docker-compose.yml").read_text()
    assert "GROUP: orders-view" in composition
    script = (COMPOSE / "streams.sh").read_text()
    assert "application.id=counts" in script
    streams = settings.groups[1]
    assert f"num.standby.replicas={streams.num_standby_replicas}" in script
    assert f"rack.aware.assignment.strategy={streams.rack_aware_assignment_strategy}" in script


def test_the_topology_is_what_the_application_says_of_itself(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no Streams application")
    said = load_topology(write_topology(Application("counts", ("clicks",), "counts-output", 12), tmp_path))
    kept = load_topology(COMPOSE / "counts.yaml")
    assert told(kept) == told(said)


def told(topology: Topology) -> object:
    return topology.application_id, topology.subtopologies


def test_the_smoke_script_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = smoke()
    for name in ("BELLWETHER", "PROMETHEUS", "GRAFANA"):
        monkeypatch.setattr(script, name, "http://127.0.0.1:1")
    monkeypatch.setattr(sys, "argv", ["smoke.py", "--limit-s", "0.1"])
    assert script.main() == 1
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["MISSING", name]
        for name in ("ready", "leads_the_consumers", "targets_up", "rules_loaded", "dashboards_provisioned")
    ]
