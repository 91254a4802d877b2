"""Kubernetes' schemas, against which manifests are checked."""

import json
from pathlib import Path

import pytest

KUBERNETES = "1.31"


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
