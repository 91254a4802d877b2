"""Manifests of Kubernetes as helm and kustomize make them, and the checks that they pass."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.conftest import KUBERNETES
from tests.paths import ROOT

CHART = ROOT / "deploy" / "helm" / "bellwether"
TOOLS = f"{ROOT / '.cache' / 'bin'}{os.pathsep}{os.environ['PATH']}"


VERSION = ("--kube-version", "1.31.0")
FOREIGN = {
    "ServiceMonitor",
    "PodMonitor",
    "PrometheusRule",
}  # of the Prometheus operator: Kubernetes has no schema for them
Manifest = dict[str, Any]
Values = dict[str, Any]


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
    (only,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return only


def assert_locked_down(manifest: Manifest) -> None:
    security = manifest["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["runAsUser"] > 0
    assert manifest["livenessProbe"]["httpGet"]["path"] == "/livez"


BESIDE = {"shape": "sidecar", "application": {"podSpec": {"containers": [{"name": "app", "image": "app:1"}]}}}


def helm() -> str:
    """The executable; without it the test is skipped."""
    executable = shutil.which("helm", path=TOOLS)
    if executable is None:
        pytest.skip("helm is not installed; make check-deploy does that")
    return executable


def templated(values: Values) -> subprocess.CompletedProcess[str]:
    """What the chart makes of `values`, or why it refuses."""
    command = [helm(), "template", "x", str(CHART), *VERSION, "--values", "-"]
    return subprocess.run(command, check=False, input=json.dumps(values), capture_output=True, text=True, timeout=500)


def workload(values: Values) -> Manifest:
    """The Deployment or StatefulSet of `values`."""
    done = templated(values)
    assert done.returncode == 0, done.stderr
    return next(m for m in yaml.safe_load_all(done.stdout) if m and m["kind"] in ("Deployment", "StatefulSet"))


def application(**changed: Any) -> Values:
    """Values of a sidecar beside an application that is described by `changed`."""
    return BESIDE | {"application": BESIDE["application"] | changed}
