"""The composition's own files: the settings load, the topology is the application's, the smoke script names what is
missing. `tests.lab.dashboards` runs its checks against what is there."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.coordinator.topology import load_topology
from tests.conftest import missing_tool
from tests.deploy.manifests import run
from tests.deploy.smoke import smoke
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_stage import write_topology
from tests.paths import ROOT

Rendered = dict[str, Any]

COMPOSE = ROOT / "deploy" / "compose"
BROKER_ASSIGNOR = COMPOSE / "broker-assignor.yml"


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
    message = load_topology(write_topology(Application("counts", ("clicks",), "counts-output", 12), tmp_path))
    kept = load_topology(COMPOSE / "counts.yaml")
    assert reported(kept) == reported(message)


@pytest.fixture(scope="module")
def rendered() -> Rendered:
    """What `docker compose config` makes of the file. It needs no engine."""
    run("docker-compose", "-f", "docker-compose.yml", "config", "--quiet")
    document: Rendered = json.loads(run("docker-compose", "-f", "docker-compose.yml", "config", "--format", "json"))
    return document


def test_compose_itself_takes_the_file_and_starts_every_service_with_one_command(rendered: Rendered) -> None:
    services = rendered["services"]
    assert rendered["name"] == "bellwether"
    brokers, clients = {f"kafka-{n}" for n in (1, 2, 3)}, {f"counts-{n}" for n in (1, 2, 3)}
    consumers = {f"orders-{language}-{n}" for language in ("java", "python") for n in (1, 2)}
    around = {"topics", "load", "bellwether", "prometheus", "grafana"}
    assert services.keys() == brokers | clients | consumers | around
    listed = run("docker-compose", "-f", "docker-compose.yml", "config", "--services").split()
    assert set(listed) == services.keys(), "none waits for a profile"
    assert run("docker-compose", "-f", "docker-compose.yml", "config", "--profiles").split() == []


def test_brokers_are_in_racks_and_are_healthy_before_anybody_needs_them(rendered: Rendered) -> None:
    services = rendered["services"]
    for number in (1, 2, 3):
        broker = services[f"kafka-{number}"]
        assert broker["environment"]["KAFKA_BROKER_RACK"] == f"az{number}"
        assert broker["environment"]["KAFKA_NODE_ID"] == str(number)
        assert broker["environment"]["KAFKA_CONTROLLER_QUORUM_VOTERS"].count("@kafka-") == 3, "merged from the anchor"
        assert broker["healthcheck"]["test"] == ["CMD", "bash", "-c", "</dev/tcp/localhost/9092"], "no JVM for a check"
        assert (broker["healthcheck"]["interval"], broker["healthcheck"]["retries"]) == ("5s", 24)
    waits = {name: condition["condition"] for name, condition in services["topics"]["depends_on"].items()}
    assert waits == {f"kafka-{n}": "service_healthy" for n in (1, 2, 3)}
    for name, service in services.items():
        if name.startswith(("orders-", "counts-")) or name in ("load", "bellwether"):
            assert service["depends_on"]["topics"]["condition"] == "service_completed_successfully", name
        if name.startswith(("orders-", "counts-")):
            assert service["depends_on"]["bellwether"]["condition"] == "service_healthy", f"{name} would lead"


def test_nothing_is_published_beyond_loopback_and_bellwether_is_locked_down(rendered: Rendered) -> None:
    services = rendered["services"]
    published = {
        name: [(port["host_ip"], port["published"], port["target"]) for port in service.get("ports", ())]
        for name, service in services.items()
    }
    assert {name: ports for name, ports in published.items() if ports} == {
        name: [("127.0.0.1", str(port), port)]
        for name, port in (("bellwether", 9790), ("prometheus", 9090), ("grafana", 3000))
    }
    mounts = [mount for service in services.values() for mount in service.get("volumes", ())]
    assert mounts
    for mount in mounts:
        assert (mount["type"], mount["read_only"]) == ("bind", True)
        assert Path(mount["source"]).exists(), mount["source"]
    bellwether = services["bellwether"]
    assert bellwether["read_only"] is True
    assert (bellwether["cap_drop"], bellwether["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert "healthcheck" not in bellwether, "that of the image"
    assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()


def reported(topology: Topology) -> object:
    return topology.application_id, topology.subtopologies


@pytest.fixture(scope="module")
def beside_brokers() -> Rendered:
    """The composition of brokers that ask a Bellwether beside them."""
    made: Rendered = json.loads(run("docker-compose", "-f", str(BROKER_ASSIGNOR), "config", "--format", "json"))
    return made


def test_each_broker_asks_its_own_bellwether_through_a_shared_folder(beside_brokers: Rendered) -> None:
    services, volumes = beside_brokers["services"], beside_brokers["volumes"]
    address = load(COMPOSE / "broker-assignor.toml", environ={"BELLWETHER_HTTP_ADDRESS": "0.0.0.0:9790"})
    folders = [service_folders(services, name) for name in ("kafka", "bellwether")]
    assert folders[0] == folders[1] == [{f"socket-{number}": "/run/bellwether"} for number in (1, 2, 3)]
    for number in (1, 2, 3):
        broker, beside = services[f"kafka-{number}"], services[f"bellwether-{number}"]
        assert broker["environment"]["KAFKA_BELLWETHER_ASSIGNOR_ADDRESS"] == address.assignor_address
        assert broker["environment"]["KAFKA_NODE_ID"] == str(number), "of the other composition"
        assert broker["build"]["dockerfile"] == "deploy/compose/broker.Dockerfile"
        assert broker["image"] != "apache/kafka:4.3.0", "a build would take the name of the published image"
        user, group = beside["user"].split(":")
        assert f"uid={user},gid={group}," in volumes[f"socket-{number}"]["driver_opts"]["o"]
        assert (beside["read_only"], beside["cap_drop"]) == (True, ["ALL"])


def service_folders(services: Rendered, kind: str) -> list[dict[str, str]]:
    """The named volumes of the three services of this kind, and where they are mounted."""
    mounts = [services[f"{kind}-{number}"]["volumes"] for number in (1, 2, 3)]
    return [{m["source"]: m["target"] for m in of if m["type"] == "volume"} for of in mounts]


def test_brokers_list_classes_of_the_jar_and_consumers_name_one_of_them(beside_brokers: Rendered) -> None:
    services, sources = beside_brokers["services"], ROOT / "deploy/broker-assignor/src/main/java"
    listed = [services[f"kafka-{n}"]["environment"]["KAFKA_GROUP_CONSUMER_ASSIGNORS"].split(",") for n in (1, 2, 3)]
    assert listed[0] == listed[1] == listed[2]
    classes = [sources / f"{name.replace('.', '/')}.java" for name in listed[0] if "." in name]
    names = {f'"{services[f"consumer-{n}"]["environment"]["GROUP_REMOTE_ASSIGNOR"]}"' for n in (1, 2, 3)}
    (named,) = names
    assert sum(named in source.read_text() for source in classes) == 1
    consumer = (COMPOSE / "consumer.py").read_text()
    assert {"GROUP_PROTOCOL", "GROUP_REMOTE_ASSIGNOR"} <= services["consumer-1"]["environment"].keys()
    assert 'os.environ["GROUP_REMOTE_ASSIGNOR"]' in consumer


def test_the_other_composition_too_publishes_on_loopback_alone(beside_brokers: Rendered) -> None:
    ports = [port for service in beside_brokers["services"].values() for port in service.get("ports", ())]
    published = [f"http://{port['host_ip']}:{port['published']}" for port in ports]
    assert sorted(published) == smoke().BESIDE


def test_the_smoke_script_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = smoke()
    for name in ("BELLWETHER", "PROMETHEUS", "GRAFANA"):
        monkeypatch.setattr(script, name, "http://127.0.0.1:1")
    monkeypatch.setattr(sys, "argv", ["smoke.py", "--limit-s", "0.1"])
    assert script.main() == 1
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["MISSING", name] for name in (check.__name__ for check in script.CHECKS)
    ]
    monkeypatch.setattr(sys, "argv", ["smoke.py", "--limit-s", "0.1", "--served", "--beside", *3 * [script.GRAFANA]])
    assert script.main() == 1
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["MISSING", name] for name in (check.__name__ for check in script.WHERE_SERVED)
    ]
