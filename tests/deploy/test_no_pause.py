"""The examples for instances that stop without a pause: they hold together, and every command in them exists."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_lines import bare, understood
from tests.deploy.manifests import checked, run
from tests.paths import ROOT

FOLDER = ROOT / "deploy" / "no-pause"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
UNIT = FOLDER / "app@.service"
ENTRY_POINT = ["python3", "-m", "bellwether_kafka"]  # of Bellwether's image


def pod(file: Path) -> dict[str, Any]:
    document = yaml.safe_load(file.read_text())
    template: dict[str, Any] = document["spec"]["template"]
    assert document["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    return dict(template["spec"])


def commands_in(file: Path) -> list[list[str]]:
    lines: list[list[str]] = []
    for container in pod(file)["containers"]:
        own = container["image"].startswith("bellwether:")
        words = [*(["bellwether"] if own else container["command"]), *container.get("args", ())]
        probes = [container[name]["exec"]["command"] for name in ("startupProbe",) if name in container]
        hooks = [hook["exec"]["command"] for hook in container.get("lifecycle", {}).values()]
        lines += [word for line in (words, *probes, *hooks) for word in bare(line)]
    return lines


def exec_start() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_every_command_of_a_manifest_exists(file: Path) -> None:
    lines = commands_in(file)
    assert lines
    for words in lines:
        understood(words)


def test_an_option_that_does_not_exist_is_found() -> None:
    ready = next(words for words in commands_in(FOLDER / "guard.yaml") if words[:2] == ["debug", "ready"])
    with pytest.raises(Exception, match="--until"):
        understood([*ready, "--until", "1"])


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_a_manifest_holds_together(file: Path) -> None:
    spec, document = pod(file), yaml.safe_load(file.read_text())
    claims = {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", ())}
    volumes = claims | {volume["name"] for volume in spec.get("volumes", ())}
    for container in spec["containers"]:
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
        variables = {variable["name"] for variable in container["env"]}
        used = re.findall(r"\$\(?([A-Z_]+)\)?", " ".join(map(str, (container.get("command"), container.get("args")))))
        assert set(used) <= variables
        for probe in (container[name] for name in ("startupProbe",) if name in container):
            assert probe["timeoutSeconds"] <= probe["periodSeconds"]
            assert probe["periodSeconds"] * probe["failureThreshold"] >= 600, "restoring takes its time"


def test_what_a_stop_waits_for_fits_into_the_time_that_kubernetes_and_systemd_give() -> None:
    ((guard, *_), seconds) = commands_in(FOLDER / "guard.yaml"), pod(FOLDER / "guard.yaml")
    given = understood(guard)
    assert given is not None
    assert given.grace < seconds["terminationGracePeriodSeconds"]
    evacuate = next(words for words in commands_in(FOLDER / "prestop.yaml") if words[0] == "evacuate")
    wait_s = float(evacuate[evacuate.index("--wait") + 1])
    assert wait_s < pod(FOLDER / "prestop.yaml")["terminationGracePeriodSeconds"]
    (unit,) = bare(exec_start())
    given = understood(unit)
    assert given is not None
    (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert given.grace < float(limit)
    assert "KillMode=mixed" in UNIT.read_text(), "or the application gets SIGTERM before it is empty"


def test_the_guard_beside_an_application_watches_the_file_that_the_application_writes() -> None:
    spec = pod(FOLDER / "sidecar.yaml")
    assert spec["shareProcessNamespace"] is True
    (words,) = commands_in(FOLDER / "sidecar.yaml")
    given = understood(words)
    assert given is not None
    assert f"> {given.pid_file}" in spec["containers"][0]["command"][2]
    mounts = [container["volumeMounts"][0]["mountPath"] for container in spec["containers"]]
    assert mounts == [str(given.pid_file.parent)] * 2 if given.pid_file else False


def test_the_manifests_are_what_kubernetes_takes(schemas: Path) -> None:
    for file in MANIFESTS:
        checked(file.read_text(), schemas)


def test_kustomize_reads_the_manifests(tmp_path: Path) -> None:
    for file in MANIFESTS:
        shutil.copy(file, tmp_path)
    listed = ", ".join(file.name for file in MANIFESTS)
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{listed}]\n")
    tool = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    made = list(yaml.safe_load_all(run(*tool, str(tmp_path))))
    assert {manifest["metadata"]["name"] for manifest in made} == {"wordcount", "orders", "payments"}


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Its programs are not here, so others that are take their place."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "app@orders-1.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/bellwether", "/bin/true"))
    done = subprocess.run([verify, "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60)
    about_it = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not about_it, about_it
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=mixd"))
    done = subprocess.run([verify, "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60)
    assert "kill mode" in done.stderr, "what is wrong is found"
