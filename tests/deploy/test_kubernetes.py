"""What Helm and Kustomize make of deploy/, checked against Kubernetes' schemas. `make check-deploy` fetches them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

pytestmark = pytest.mark.timeout(900)  # other programs, on a machine that may be busy

CHART = ROOT / "deploy" / "helm" / "bellwether"
TOOLS = f"{ROOT / '.cache' / 'bin'}{os.pathsep}{os.environ['PATH']}"
KUBERNETES = "1.31"
VERSION = ("--kube-version", "1.31.0")
FOREIGN = {"ServiceMonitor", "PrometheusRule"}  # of the Prometheus operator: Kubernetes has no schema for them

Manifest = dict[str, Any]


def run(tool: str, *arguments: str, standard_input: str = "") -> str:
    executable = shutil.which(tool, path=TOOLS)
    if executable is None:
        pytest.skip(f"{tool} is not installed; make check-deploy does that")
    done = subprocess.run(
        [executable, *arguments],
        check=False,
        cwd=ROOT,
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubernetes' schemas as kubeconform reads them from files: kubernetes-validate brings them along, but they refer
    to one another by addresses of a server."""
    validator = pytest.importorskip("kubernetes_validate", reason="make check-deploy installs it")
    kept = Path(validator.__file__).parent / "kubernetes-json-schema" / f"v{KUBERNETES}.0-local-strict"
    made = tmp_path_factory.mktemp("schemas")
    for file in kept.glob("*.json"):
        schema = json.loads(file.read_text().replace('"/api/_definitions.json', '"_definitions.json'))
        schema.pop("$id", None)
        (made / file.name).write_text(json.dumps(schema))
    return made


def checked(text: str, schemas: Path) -> list[Manifest]:
    """Strictly, by two programs: neither knows what the other might miss."""
    validator = pytest.importorskip("kubernetes_validate", reason="make check-deploy installs it")
    where = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-skip", ",".join(sorted(FOREIGN)), "-schema-location", where)
    summary = run("kubeconform", *options, standard_input=text)
    assert re.search(r"Valid: [1-9]\d*, Invalid: 0, Errors: 0", summary), summary
    manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    for manifest in manifests:
        if manifest["kind"] not in FOREIGN:
            validator.validate(manifest, KUBERNETES, strict=True)
    return manifests


def of_kind(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def container(workload: Manifest) -> Manifest:
    (found,) = [c for c in workload["spec"]["template"]["spec"]["containers"] if c["name"] == "bellwether"]
    return dict(found)


def assert_locked_down(manifest: Manifest) -> None:
    security = manifest["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["runAsUser"] > 0
    assert manifest["livenessProbe"]["httpGet"]["path"] == "/livez"


def test_the_chart_makes_a_deployment(schemas: Path) -> None:
    run("helm", "lint", str(CHART))
    values = str(CHART / "ci" / "deployment-values.yaml")
    made = checked(run("helm", "template", "fleet", str(CHART), *VERSION, "--values", values), schemas)
    kinds = sorted(manifest["kind"] for manifest in made)
    assert kinds == ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"]
    assert of_kind(made, "Deployment")["spec"]["replicas"] == 2
    assert of_kind(made, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert_locked_down(container(of_kind(made, "Deployment")))
    assert set(of_kind(made, "ConfigMap")["data"]) == {"bellwether.toml", "counts.yaml"}


def test_the_chart_puts_a_container_beside_an_application(schemas: Path) -> None:
    values = str(CHART / "ci" / "sidecar-values.yaml")
    made = checked(run("helm", "template", "counts", str(CHART), *VERSION, "--values", values), schemas)
    workload = of_kind(made, "StatefulSet")
    pod = workload["spec"]["template"]["spec"]
    assert [c["name"] for c in pod["containers"]] == ["counts", "bellwether"]
    assert {v["name"] for v in pod["volumes"]} == {"state", "bellwether-config", "bellwether-secrets"}
    assert_locked_down(container(workload))
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())
    assert of_kind(made, "PrometheusRule")["spec"] == rules
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


@pytest.mark.parametrize(
    ("values", "sentence"), [("shape=both", "deployment or sidecar"), ("shape=sidecar", "containers")]
)
def test_wrong_values_are_a_sentence(values: str, sentence: str) -> None:
    executable = shutil.which("helm", path=TOOLS)
    if executable is None:
        pytest.skip("helm is not installed; make check-deploy does that")
    command = [executable, "template", "x", str(CHART), *VERSION, "--set", values]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_the_kustomize_base_and_the_sidecar(schemas: Path) -> None:
    base = checked(run("kustomize", "build", "deploy/kustomize/base"), schemas)
    assert_locked_down(container(of_kind(base, "Deployment")))
    labels = {"app.kubernetes.io/name": "bellwether"}
    assert of_kind(base, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    example = checked(run("kustomize", "build", "deploy/kustomize/example"), schemas)
    workload = of_kind(example, "StatefulSet")
    assert [c["name"] for c in workload["spec"]["template"]["spec"]["containers"]] == ["counts", "bellwether"]
    (volume,) = workload["spec"]["template"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == of_kind(example, "ConfigMap")["metadata"]["name"]
