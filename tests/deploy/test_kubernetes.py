"""What Helm and Kustomize make of deploy/, checked against Kubernetes' schemas. `make check-deploy` fetches them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bellwether_kafka.coordinator.settings import load
from tests.deploy.manifests import (
    BESIDE,
    CHART,
    VERSION,
    Manifest,
    Values,
    application,
    assert_locked_down,
    checked,
    helm,
    of_kind,
    run,
    templated,
    workload,
)
from tests.module_files import module_at
from tests.paths import ROOT

pytestmark = pytest.mark.timeout(900)  # other programs, on a machine that may be busy


def container(manifest: Manifest) -> Manifest:
    (only,) = [c for c in manifest["spec"]["template"]["spec"]["containers"] if c["name"] == "bellwether"]
    return dict(only)


LEADS_ALONE = """
[kafka]
"bootstrap.servers" = "kafka:9092"
[[groups]]
name = "orders"
mode = "lead"
"""
STANDBY = f"control_topic = 'bellwether-control'\nstandby = true\n{LEADS_ALONE}"


AT = '[kafka]\n"bootstrap.servers" = "kafka:9092"\n'


@pytest.mark.parametrize(
    "config",
    [
        LEADS_ALONE,
        STANDBY,
        f'groups = [{{ name = "orders", mode = "lead" }}]\n{AT}',
        f'groups = [\n  {{ name = "a#b", mode = "lead" }}, # the first\n]\n{AT}',
        f'groups = [{{mode="lead",name="orders"}}]\n{AT}',
        f'standby = true\ncontrol_topic = "c"\ngroups = [{{ name = "orders", mode = "lead" }}]\n{AT}',
        f'{AT}[[groups]]\nname = "orders"\nmode = """lead"""\n',
        f"{AT}[[groups]]\nname = 'orders'\n'mode'='lead'\n",
        f'{AT}[[groups]]\nname = "orders"\n# mode = "lead"\n',
        f'{AT}[[groups]]\nname = "orders"\nmode = "observe" # or mode = "lead"\n',
        f'{AT}[[groups]]\nname = "lead"\n',
    ],
    ids=range(11),
)
def test_the_chart_sees_whether_a_process_leads_alone_as_bellwether_does(config: str, tmp_path: Path) -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    of_chart = dict(re.findall(r"\$(lead|standby) := regexMatch `([^`]+)`", helpers))
    file = tmp_path / "bellwether.toml"
    file.write_text(config)
    settings = load(file, environ={})
    assert bool(re.search(of_chart["lead"], config)) == any(group.mode == "lead" for group in settings.groups)
    assert bool(re.search(of_chart["standby"], config)) == settings.standby


def test_no_pod_of_bellwethers_gets_variables_for_services() -> None:
    """Those of a Service called bellwether-... begin as the variables of settings do."""
    pods = [*(ROOT / "deploy" / "no-pause").glob("*.yaml"), *(ROOT / "deploy" / "kustomize").rglob("*.yaml")]
    templates = [path for path in pods if re.search(r"^ +containers:", path.read_text(), re.MULTILINE)]
    assert len(templates) >= 5
    for path in (*templates, CHART / "templates" / "workload.yaml"):
        assert "      enableServiceLinks: false" in path.read_text(), path


def test_an_application_that_needs_service_links_keeps_them() -> None:
    assert workload(BESIDE)["spec"]["template"]["spec"]["enableServiceLinks"] is False
    own = {"podSpec": {**BESIDE["application"]["podSpec"], "enableServiceLinks": True}}
    assert workload(BESIDE | {"application": own})["spec"]["template"]["spec"]["enableServiceLinks"] is True


def test_the_chart_makes_a_deployment(schemas: Path) -> None:
    run("helm", "lint", str(CHART))
    values = str(CHART / "ci" / "deployment-values.yaml")
    made = checked(run("helm", "template", "fleet", str(CHART), *VERSION, "--values", values), schemas)
    kinds = sorted(manifest["kind"] for manifest in made)
    assert kinds == [
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "Service",
        "ServiceAccount",
    ]
    assert of_kind(made, "Deployment")["spec"]["replicas"] == 2
    assert of_kind(made, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert_locked_down(container(of_kind(made, "Deployment")))
    assert set(of_kind(made, "ConfigMap")["data"]) == {"bellwether.toml", "counts.yaml"}


def test_a_pod_can_be_given_what_a_login_of_aws_needs(schemas: Path) -> None:
    values = str(CHART / "ci" / "deployment-values.yaml")
    made = checked(run("helm", "template", "fleet", str(CHART), *VERSION, "--values", values), schemas)
    account = of_kind(made, "ServiceAccount")
    assert account["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/bellwether"
    }
    pod = of_kind(made, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == "fleet"
    own = container(of_kind(made, "Deployment"))
    assert {"name": "AWS_DEFAULT_REGION", "value": "eu-central-1"} in own["env"]
    assert {"name": "ca", "mountPath": "/etc/bellwether/ca", "readOnly": True} in own["volumeMounts"]
    assert {"name": "ca", "configMap": {"name": "brokers"}} in pod["volumes"]
    assert own["image"] == f"registry.example/bellwether@sha256:{'0123456789abcdef' * 4}"
    ports = [port["port"] for port in of_kind(made, "NetworkPolicy")["spec"]["egress"][1]["ports"]]
    assert ports == [9098, 443], "the brokers, and AWS' token service"


def test_an_account_that_exists_is_taken_by_name() -> None:
    assert workload({"serviceAccount": {"name": "ours"}})["spec"]["template"]["spec"]["serviceAccountName"] == "ours"
    assert "serviceAccountName" not in workload({})["spec"]["template"]["spec"]
    beside = workload(BESIDE | {"serviceAccount": {"name": "ours"}})
    assert beside["spec"]["template"]["spec"]["serviceAccountName"] == "ours"


def test_a_secret_can_be_read_by_the_user_that_runs() -> None:
    """Its files belong to root, and no fsGroup hands them to anybody."""
    for values in ({"secretName": "password"}, BESIDE | {"secretName": "password"}):
        pod = workload(values)["spec"]["template"]["spec"]
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert secret["defaultMode"] & 0o004


@pytest.mark.parametrize(
    ("values", "strategy"),
    [
        ({"config": LEADS_ALONE}, {"type": "Recreate"}),
        ({"config": STANDBY}, None),
        (
            {"config": STANDBY, "replicaCount": 3, "strategy": {"rollingUpdate": {"maxSurge": 0}}},
            {"rollingUpdate": {"maxSurge": 0}},
        ),
        ({"config": LEADS_ALONE} | application(replicas=1, strategy={"type": "Recreate"}), {"type": "Recreate"}),
        ({"config": STANDBY} | BESIDE, None),
    ],
)
def test_an_upgrade_never_runs_two_pods_under_one_instance_id(values: Values, strategy: object) -> None:
    assert workload(values)["spec"].get("strategy") == strategy


def test_a_pod_of_a_stateful_set_is_gone_before_its_successor_starts() -> None:
    alone = workload({"config": LEADS_ALONE} | application(kind="StatefulSet", replicas=1))
    assert alone["kind"] == "StatefulSet"
    update = {"type": "OnDelete"}
    asked = workload({"config": STANDBY} | application(kind="StatefulSet", strategy=update))
    assert asked["spec"]["updateStrategy"] == update


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"shape": "both"}, "at '/shape': value must be one of 'deployment', 'sidecar'"),
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"serviceMonitor": {"interval": 15}}, "at '/serviceMonitor/interval': got number, want string"),
        ({"shape": "sidecar"}, "containers"),
        ({"config": LEADS_ALONE, "replicaCount": 2}, "2 pods would lead under one instance id"),
        ({"config": LEADS_ALONE, "strategy": {"type": "RollingUpdate"}}, "or strategy.type to Recreate"),
        ({"config": LEADS_ALONE} | BESIDE, "3 pods would lead under one instance id"),
        ({"config": LEADS_ALONE} | application(replicas=1), "or application.strategy.type to Recreate"),
        ({"config": LEADS_ALONE} | application(kind="StatefulSet"), "3 pods would lead under one instance id"),
        (application(volumeClaimTemplates=[{"metadata": {"name": "state"}}]), "set application.kind to StatefulSet"),
        (application(podManagementPolicy="Parallel"), "set application.kind to StatefulSet"),
        (
            {"serviceAccount": {"create": True}}
            | application(podSpec=BESIDE["application"]["podSpec"] | {"serviceAccountName": "theirs"}),
            "the pod has one service account",
        ),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(values: Values, sentence: str) -> None:
    done = templated(values)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_the_helper_of_an_application_does_not_take_it_out_of_its_service() -> None:
    assert "readinessProbe" in container(workload({}))
    assert "readinessProbe" not in container(workload(BESIDE))


def test_every_alert_links_to_where_the_runbooks_are_served() -> None:
    for reported, expected in (("", set()), ("https://wiki.example/runbooks.md", {"https://wiki.example/runbooks.md"})):
        done = templated({"prometheusRule": {"enabled": True, "runbooksUrl": reported}})
        assert done.returncode == 0, done.stderr
        spec = of_kind([m for m in yaml.safe_load_all(done.stdout) if m], "PrometheusRule")["spec"]
        alerts = [rule["annotations"] for group in spec["groups"] for rule in group["rules"] if "alert" in rule]
        assert alerts
        assert {alert["runbook_url"].split("#")[0] for alert in alerts if "runbook_url" in alert} == expected
        assert all(("runbook_url" in alert) == bool(reported) for alert in alerts)


def test_the_chart_puts_a_container_beside_an_application(schemas: Path) -> None:
    values = str(CHART / "ci" / "sidecar-values.yaml")
    made = checked(run("helm", "template", "counts", str(CHART), *VERSION, "--values", values), schemas)
    stateful = of_kind(made, "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    assert [c["name"] for c in pod["containers"]] == ["counts", "bellwether"]
    assert {v["name"] for v in pod["volumes"]} == {"state", "bellwether-config", "bellwether-secrets"}
    assert_locked_down(container(stateful))
    rules = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text()
    served = rules.replace("https://runbooks.example.com/bellwether/runbooks.md", "https://wiki.example/runbooks.md")
    assert of_kind(made, "PrometheusRule")["spec"] == yaml.safe_load(served)
    dashboards = next(m for m in made if m["metadata"]["name"] == "counts-dashboards")
    assert len(dashboards["data"]) == len(list((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")))


def test_what_is_wrong_in_a_manifest_is_found(schemas: Path) -> None:
    made = run(
        "helm", "template", "fleet", str(CHART), *VERSION, "--values", str(CHART / "ci" / "deployment-values.yaml")
    )
    for right, wrong in (("replicas: 2", 'replicas: "two"'), ("automountServiceAccountToken:", "automountToken:")):
        assert right in made
        with pytest.raises(AssertionError, match="Deployment fleet is invalid"):
            checked(made.replace(right, wrong), schemas)


def test_the_kustomize_base_and_the_instance(schemas: Path) -> None:
    base = checked(run("kustomize", "build", "deploy/kustomize/base"), schemas)
    assert_locked_down(container(of_kind(base, "Deployment")))
    assert of_kind(base, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    labels = {"app.kubernetes.io/name": "bellwether"}
    assert of_kind(base, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    example = checked(run("kustomize", "build", "deploy/kustomize/example"), schemas)
    stateful = of_kind(example, "StatefulSet")
    assert [c["name"] for c in stateful["spec"]["template"]["spec"]["containers"]] == ["counts", "bellwether"]
    volumes = {volume["name"]: volume for volume in stateful["spec"]["template"]["spec"]["volumes"]}
    assert volumes["state"] == {"name": "state", "emptyDir": {}}, "the application keeps its volumes"
    assert volumes["bellwether-config"]["configMap"]["name"] == of_kind(example, "ConfigMap")["metadata"]["name"]


def described(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """The paths that a schema and values do not share, where the schema lists the properties of an object."""
    listed = schema.get("properties")
    if listed is None:
        return
    yield from (listed.keys() ^ values.keys()) - {"global"}  # Helm's own
    for name in listed.keys() & values.keys():
        if isinstance(values[name], dict):
            yield from (f"{name}.{path}" for path in described(listed[name], values[name]))


def test_the_schema_of_the_values_lists_them_all() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert sorted(described(schema, values)) == []
    assert sorted(described(schema, values | {"more": 1, "image": {}})) != []


def test_a_network_policy_without_ports_of_dns_is_refused() -> None:
    """A rule without ports allows all traffic."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"]["networkPolicy"]["properties"]["dnsPorts"]["minItems"] == 1


@pytest.mark.parametrize("shape", ["deployment", "sidecar"])
def test_the_chart_runs_where_a_namespace_has_users_of_its_own(shape: str) -> None:
    """OpenShift refuses a pod that names another user, and its DNS listens on port 5353 behind the Service."""
    values = (BESIDE if shape == "sidecar" else {}) | {
        "securityContext": {"runAsUser": None, "runAsGroup": None},
        "networkPolicy": {"dnsPorts": [53, 5353]},
    }
    done = templated(values)
    assert done.returncode == 0, done.stderr
    made = [m for m in yaml.safe_load_all(done.stdout) if m]
    security = container(of_kind(made, "Deployment"))["securityContext"]
    assert not {"runAsUser", "runAsGroup"} & security.keys()
    assert (security["runAsNonRoot"], security["capabilities"]) == (True, {"drop": ["ALL"]})
    if shape == "deployment":
        (dns, _) = of_kind(made, "NetworkPolicy")["spec"]["egress"]
        ports = [(port["port"], port["protocol"]) for port in dns["ports"]]
        assert ports == [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")]


def test_helm_finds_nothing_to_say_of_the_chart() -> None:
    executable = helm()
    for values in ([], *(["--values", str(file)] for file in sorted((CHART / "ci").iterdir()))):
        done = subprocess.run(
            [executable, "lint", "--strict", *values, str(CHART)],
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout


def test_the_readme_of_the_chart_is_what_the_generator_writes() -> None:
    module = module_at(ROOT / "deploy" / "helm" / "generate.py", "generate_chart_readme")
    assert module.page() == (CHART / "README.md").read_text(encoding="utf-8"), "run python deploy/helm/generate.py"
    assert " |  |\n" not in module.page(), "each value needs a comment in values.yaml"


def test_the_notes_of_a_release_say_what_its_values_leave_out(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "NOTES.txt").write_text((CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8"), encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}\n')

    def notes(*options: str) -> str:
        made = run("helm", "template", "x", str(chart), *VERSION, "--show-only", "templates/notes.yaml", *options)
        return str(yaml.safe_load(made)["notes"])

    assert "exec deployment/x -c bellwether" in notes()
    assert "No monitor tells Prometheus" in notes()
    assert "No other pod takes over" not in notes()
    assert "No other pod takes over" in notes("--set", f"config={LEADS_ALONE}".replace('"', r"\""))
    instance = notes("--values", str(CHART / "ci" / "sidecar-values.yaml"))
    assert "exec statefulset/x -c bellwether" in instance
    assert "No monitor tells Prometheus" not in instance
    assert "NetworkPolicy" not in instance


def test_two_monitors_are_refused_because_each_pod_would_be_scraped_twice() -> None:
    done = templated({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}})
    assert done.returncode != 0
    assert "switch one of them off" in done.stderr
