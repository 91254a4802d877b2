"""No container engine needed: the image's install steps run in a clean folder, and what they installed runs there."""

import base64
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.paths import ROOT

pytestmark = pytest.mark.timeout(900)  # other programs, on a machine that may be busy

DOCKERFILES = ("Dockerfile", "deploy/image/pipeline.Dockerfile")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
JARS = Path(".cache") / "spark" / "jars"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the image's install steps make."""
    target = tmp_path_factory.mktemp("image") / "bellwether"
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    install = ["sh", "deploy/image/install.sh", str(target)]
    done = subprocess.run(install, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return target


def alone(installed: Path, code: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What `code` prints where only what was installed can be imported."""
    isolation = f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + [{str(installed)!r}]\n"
    run = [sys.executable, "-I", "-c", isolation + code, *arguments]
    reported = subprocess.run(
        run, check=False, cwd=installed.parent, env=environment, capture_output=True, text=True, timeout=500
    )
    assert reported.returncode == 0, reported.stderr
    return reported.stdout


def test_the_install_steps_make_a_service_that_starts(installed: Path) -> None:
    code = "from bellwether_kafka.coordinator.cli import main; sys.argv = ['bellwether', *sys.argv[1:]]; main()"
    assert alone(installed, code, "--version").split()[0] == "bellwether"
    assert not list(installed.glob("pyspark")), "the pipeline's packages do not belong into the service"


def test_the_image_can_log_in_to_msk(installed: Path) -> None:
    """Nobody can install an extra into an image without a shell."""
    code = """
from bellwether_kafka.coordinator.kafka.wire.tokens import aws_login, msk_token
print(msk_token(*aws_login()).value)
"""
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}
    token = alone(installed, code, environment=keys).strip()
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")


def test_the_last_stage_runs_as_a_number_and_installs_nothing() -> None:
    last = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert re.search(r"^USER \d+:\d+$", last, re.MULTILINE)
    assert not re.search(r"^(RUN|ADD)", last, re.MULTILINE)
    assert "distroless" in last


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_build_copies_what_the_wheel_needs(dockerfile: str) -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", (ROOT / dockerfile).read_text(), re.MULTILINE))
    package = ROOT / "bellwether_kafka"
    assert copied == {package.name, *(entry.name for entry in package.iterdir() if entry.is_symlink())}


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_labels_say_what_is_inside(dockerfile: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', (ROOT / dockerfile).read_text()))
    assert (labels["version"], labels["licenses"]) == (project["version"], project["license"])


def test_the_image_of_the_pipeline_has_the_jars_that_the_jobs_need() -> None:
    text = (ROOT / "deploy" / "image" / "pipeline.Dockerfile").read_text()
    assert f"/opt/bellwether/bellwether_kafka/{JARS}\n" in text
    assert (
        'JARS = Path(__file__).resolve().parent.parent / ".cache" / "spark" / "jars"'
        in (ROOT / "pipeline" / "session.py").read_text()
    )
    wanted = re.search(r"includeArtifactIds=(\S+)", text)
    assert wanted is not None
    assert wanted[1] in (ROOT / "Makefile").read_text(), "the same jars as make setup-pipeline"


def test_the_composition_names_files_and_services_that_exist() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        for volume in service.get("volumes", ()):
            assert (ROOT / volume.split(":")[0]).exists(), volume
            assert volume.endswith(":ro"), volume
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name} is published beyond loopback"
    assert services["bellwether"]["read_only"] is True
    assert {services[f"kafka-{n}"]["environment"]["KAFKA_BROKER_RACK"] for n in (1, 2, 3)} == {"az1", "az2", "az3"}


def test_the_composition_is_one_that_docker_compose_would_load() -> None:
    """With the library that `docker compose config` is made of."""
    if shutil.which("go") is None:
        assert not os.environ.get("CI"), "CI needs Go"
        pytest.skip("Go is not installed")
    load = ["go", "run", ".", str(ROOT / "docker-compose.yml")]
    here = Path(__file__).parent / "compose"
    done = subprocess.run(load, check=False, cwd=here, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    assert "bellwether" in done.stdout.split()
