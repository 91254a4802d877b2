"""The kustomize component that puts Bellwether beside each broker, and its example."""

import yaml

from bellwether_kafka.coordinator.settings import load
from tests.deploy.test_kubernetes import assert_locked_down, of_kind, run
from tests.paths import ROOT


def test_a_broker_and_the_bellwether_beside_it_share_the_folder_of_the_socket() -> None:
    built = yaml.safe_load_all(run("kustomize", "build", "deploy/kustomize/broker-example"))
    manifests = [manifest for manifest in built if manifest]
    pod = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    broker, beside = pod["containers"]
    assert (broker["name"], beside["name"]) == ("kafka", "bellwether")
    assert_locked_down(beside)
    assert {m["name"]: m["mountPath"] for m in broker["volumeMounts"]} == {
        "data": "/var/lib/kafka/data",
        "bellwether-socket": "/run/bellwether",
    }
    assert {m["name"]: m["mountPath"] for m in beside["volumeMounts"]} == {
        "bellwether-config": "/etc/bellwether/config",
        "bellwether-socket": "/run/bellwether",
    }
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["bellwether-socket"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}
    assert volumes["bellwether-config"]["configMap"]["name"] == of_kind(manifests, "ConfigMap")["metadata"]["name"]
    assert pod["securityContext"]["fsGroup"] > 0, "it owns the folder, so the broker may connect"


def test_brokers_ask_where_the_bellwether_beside_them_listens() -> None:
    example = ROOT / "deploy" / "kustomize" / "broker-example"
    settings = load(example / "bellwether.toml", environ={})
    brokers = yaml.safe_load((example / "brokers.yaml").read_text())
    (broker,) = brokers["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in broker["env"]}
    assert variables["KAFKA_BELLWETHER_ASSIGNOR_ADDRESS"] == settings.assignor_address
    sources = ROOT / "deploy" / "broker-assignor" / "src" / "main" / "java"
    classes = [name for name in variables["KAFKA_GROUP_CONSUMER_ASSIGNORS"].split(",") if "." in name]
    assert classes
    for name in classes:
        assert (sources / f"{name.replace('.', '/')}.java").exists(), name
