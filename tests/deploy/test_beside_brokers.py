"""The kustomize component that puts Bellwether beside each broker, its example, and that of the chart."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bellwether_kafka.coordinator.settings import load
from tests.deploy.manifests import CHART, VERSION, application, assert_locked_down, checked, of_kind, run, workload
from tests.paths import ROOT

SOURCES = ROOT / "deploy" / "broker-assignor" / "src" / "main" / "java"
SOCKET = {"name": "bellwether-socket", "mountPath": "/run/bellwether"}
VALUES = CHART / "ci" / "broker-values.yaml"
COMMANDS = {
    "kustomize": ("kustomize", "build", "deploy/kustomize/broker-example"),
    "chart": ("helm", "template", "kafka", str(CHART), *VERSION, "--values", str(VALUES)),
}


@pytest.fixture(params=sorted(COMMANDS))
def manifests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What either makes of its example."""
    return [manifest for manifest in yaml.safe_load_all(run(*COMMANDS[request.param])) if manifest]


def test_a_broker_and_the_bellwether_beside_it_share_the_folder_of_the_socket(manifests: list[dict[str, Any]]) -> None:
    pod = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    broker, beside = pod["containers"]
    assert (broker["name"], beside["name"]) == ("kafka", "bellwether")
    assert_locked_down(beside)
    assert SOCKET in broker["volumeMounts"]
    assert SOCKET in beside["volumeMounts"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["bellwether-socket"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}
    assert volumes["bellwether-config"]["configMap"]["name"] == of_kind(manifests, "ConfigMap")["metadata"]["name"]
    assert pod["securityContext"]["fsGroup"] > 0, "it owns the folder, so the broker may connect"


def test_each_volume_that_a_container_mounts_is_there(manifests: list[dict[str, Any]]) -> None:
    stateful = of_kind(manifests, "StatefulSet")["spec"]
    disks = {claim["metadata"]["name"] for claim in stateful.get("volumeClaimTemplates", ())}
    volumes = disks | {volume["name"] for volume in stateful["template"]["spec"]["volumes"]}
    mounted = {m["name"] for c in stateful["template"]["spec"]["containers"] for m in c["volumeMounts"]}
    assert mounted == volumes


def test_brokers_ask_where_the_bellwether_beside_them_listens(manifests: list[dict[str, Any]]) -> None:
    settings = tomllib.loads(of_kind(manifests, "ConfigMap")["data"]["bellwether.toml"])
    variables = variables_of_broker(manifests)
    assert variables["KAFKA_BELLWETHER_ASSIGNOR_ADDRESS"] == settings["assignor_address"]
    classes = [name for name in variables["KAFKA_GROUP_CONSUMER_ASSIGNORS"].split(",") if "." in name]
    assert classes
    for name in classes:
        assert (SOURCES / f"{name.replace('.', '/')}.java").exists(), name


def test_bellwether_reads_the_configurations_of_the_examples() -> None:
    example = ROOT / "deploy" / "kustomize" / "broker-example" / "bellwether.toml"
    settings = load(example, environ={})
    assert tomllib.loads(example.read_text()) == tomllib.loads(yaml.safe_load(VALUES.read_text())["config"])
    assert [group.mode for group in settings.groups] == ["observe"]


def variables_of_broker(manifests: list[dict[str, Any]]) -> dict[str, str]:
    """The variables of the broker's container that have a value of their own."""
    broker = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    return {variable["name"]: variable["value"] for variable in broker["env"] if "value" in variable}


def test_the_brokers_of_the_chart_find_each_other_by_the_names_of_its_service() -> None:
    manifests = [manifest for manifest in yaml.safe_load_all(run(*COMMANDS["chart"])) if manifest]
    stateful, service = of_kind(manifests, "StatefulSet"), of_kind(manifests, "Service")
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"] == "kafka"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"], "the quorum needs addresses before any broker is ready"
    pods = [f"{stateful['metadata']['name']}-{pod}" for pod in range(stateful["spec"]["replicas"])]
    voters = ",".join(f"{pod}@{name}.kafka:9093" for pod, name in enumerate(pods))
    assert variables_of_broker(manifests)["KAFKA_CONTROLLER_QUORUM_VOTERS"] == voters
    assert "NetworkPolicy" not in {manifest["kind"] for manifest in manifests}


@pytest.mark.parametrize("example", sorted(COMMANDS))
def test_the_examples_fit_the_schemas_of_kubernetes(example: str, schemas: Path) -> None:
    assert checked(run(*COMMANDS[example]), schemas)


def test_the_pods_of_a_stateful_set_have_disks_of_their_own() -> None:
    disks = [{"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    stateful = workload(application(kind="StatefulSet", volumeClaimTemplates=disks, podManagementPolicy="Parallel"))
    assert stateful["spec"]["volumeClaimTemplates"] == disks
    assert stateful["spec"]["podManagementPolicy"] == "Parallel"
    without = workload(application(kind="StatefulSet"))["spec"]
    assert not {"volumeClaimTemplates", "podManagementPolicy"} & without.keys()
