"""What the proof in containers decides without an engine: `make prove-compose` runs the rest."""

import io
import os
import shutil
import tarfile
from typing import Any

import pytest
import yaml

from tests.deploy.containers import engine as engines
from tests.deploy.containers.bases import BASES, HERE
from tests.deploy.containers.engine import MissingEngineError, engine
from tests.deploy.containers.failures import FAILURES, Row, differences, healthy
from tests.deploy.containers.image import bill_of_materials, components, unlocked
from tests.deploy.containers.play import SHAPES, rendered
from tests.deploy.manifests import TOOLS
from tests.paths import ROOT

OTHER_IMAGES = ("compose/broker", "compose/streams", "image/pipeline")


def services() -> dict[str, Any]:
    by_name: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return by_name


def group(state: str = "STABLE", members: int = 4, committed: int = 7) -> dict[str, Any]:
    return {"state": state, "members": ["client"] * members, "committed": {"0": committed}, "ends": {"0": 7}}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (group(), True),
        (group(committed=8), True),
        (group(state="PREPARING_REBALANCING"), False),
        (group(members=3), False),
        (group(committed=6), False),
        (group() | {"committed": {}}, False),
    ],
)
def test_healthy_is_stable_complete_and_consumed(reported: dict[str, Any], *, expected: bool) -> None:
    assert healthy({"orders-view": reported}, {"orders-view": {"0": 7}}) is expected


@pytest.mark.parametrize(("healthy_s", "leads_s", "passed"), [(9.0, 8.0, True), (91.0, 8.0, False), (9.0, None, False)])
def test_a_row_passes_within_its_bound_and_led(healthy_s: float, leads_s: float | None, *, passed: bool) -> None:
    assert Row("killed", "bellwether", healthy_s, leads_s).passed is passed


@pytest.mark.parametrize(
    ("changed", "written_late", "wrong"),
    [
        ({}, 0, []),
        ({"seen": 12, "late": 1}, 0, []),
        ({"seen": 9}, 0, ["records were lost"]),
        ({"distinct": 9, "missing": 1, "digest": 5}, 0, ["distinct", "missing", "digest"]),
        ({}, 1, ["counts were written late"]),
    ],
)
def test_records_may_be_counted_twice_or_late_but_not_lost(
    changed: dict[str, int], written_late: int, wrong: list[str]
) -> None:
    records = {"keys": 2, "seen": 10, "distinct": 10, "missing": 0, "digest": 77, "late": 0}
    assert differences(records, records | changed, written_late) == wrong


def test_every_service_that_lasts_is_hurt_and_nothing_else() -> None:
    assert {failure.service for failure in FAILURES} == services().keys() - {"topics", "grafana"}


def test_every_service_starts_again_when_it_is_killed() -> None:
    """Prometheus did not, and everything else was well without it."""
    assert [name for name, reported in services().items() if "restart" not in reported] == []


def test_every_base_that_a_dockerfile_starts_from_can_be_made() -> None:
    made = {name.split("/", 1)[1].removeprefix("library/") for name in BASES} | set(BASES)
    for dockerfile in ("Dockerfile", *(f"deploy/{name}.Dockerfile" for name in OTHER_IMAGES)):
        starts = [line.split()[1] for line in (ROOT / dockerfile).read_text().splitlines() if line.startswith("FROM ")]
        assert set(starts) <= made, dockerfile
    assert all((HERE / base.dockerfile).exists() for base in BASES.values())


def test_the_bill_of_materials_names_what_is_installed_and_what_is_not_as_locked() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name, version in (("numpy", "0.0.1"), ("PyYAML", "6.0.2")):
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: BSD\n\n".encode()
            entry = tarfile.TarInfo(f"opt/bellwether/{name}-{version}.dist-info/METADATA")
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text))
    archive.seek(0)
    with tarfile.open(fileobj=archive) as files:
        parts = components(files)
    assert [part["purl"] for part in parts] == ["pkg:pypi/numpy@0.0.1", "pkg:pypi/pyyaml@6.0.2"]
    assert "numpy" in unlocked(parts)
    assert bill_of_materials("sha256:1", parts)["components"] == parts


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_one_that_podman_can_play(shape: str) -> None:
    if shutil.which("helm", path=TOOLS) is None:
        pytest.skip("helm is not installed; make check-deploy does that")
    manifests = rendered("shape", SHAPES[shape])
    assert [manifest["kind"] for manifest in manifests] == ["Secret", "ConfigMap", "Deployment"]
    for container in manifests[2]["spec"]["template"]["spec"]["containers"]:
        assert not {"livenessProbe", "readinessProbe", "ports"} & container.keys()
        assert all("valueFrom" not in variable for variable in container["env"])


def test_a_machine_without_an_engine_is_reported_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(engines, "PROGRAMS", ("podman", "no-such-program"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingEngineError, match="no-such-program missing, and only root"):
        engine(tmp_path)
    assert not list(tmp_path.iterdir())
