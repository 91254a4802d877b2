"""The images that the Dockerfiles and the composition start from: pulled, or, where no registry answers, equivalents
made of Debian, Maven and PyPI under the same names."""

import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.containers.engine import BUILD_LIMIT_S, Engine, EngineError, engine
from tests.paths import ROOT

HERE = Path(__file__).parent / "bases"
DEBIAN = "localhost/debootstrap:bookworm"
PYTHON = "docker.io/library/python:3.11-slim-bookworm"
DISTROLESS = "gcr.io/distroless/python3-debian12:nonroot"
JRE = "docker.io/library/eclipse-temurin:17-jre"
MAVEN = "docker.io/library/maven:3-eclipse-temurin-17"
KAFKA = "docker.io/apache/kafka:4.3.0"
PROMETHEUS = "docker.io/prom/prometheus:v2.55.1"
PACKAGES = "ca-certificates,python3,python3-venv,python3-pip"
CERTIFICATES = Path("/etc/ssl/certs")


@dataclass(frozen=True, slots=True)
class Base:
    """How to make one of them; bases before it in `BASES` are there already."""

    dockerfile: str
    arguments: Mapping[str, str] = field(default_factory=dict)


BASES = {
    PYTHON: Base("debian.Dockerfile"),
    DISTROLESS: Base("distroless.Dockerfile"),
    JRE: Base("java.Dockerfile", {"PACKAGES": "openjdk-17-jre-headless"}),
    MAVEN: Base("java.Dockerfile", {"PACKAGES": "openjdk-17-jdk-headless maven"}),
    KAFKA: Base("kafka.Dockerfile"),
    PROMETHEUS: Base("prometheus.Dockerfile"),
}


def provide(engine: Engine) -> Mapping[str, str]:
    """Every base by name, and where it came from: "here", "pulled" or "made". Raises EngineError."""
    return {name: _provided(engine, name) for name in BASES}


def _provided(engine: Engine, name: str) -> str:
    if engine.has_image(name):
        return "here"
    if _answers(name.split("/", maxsplit=1)[0]):
        engine.run("pull", "--quiet", name, limit_s=BUILD_LIMIT_S)
        return "pulled"
    if not engine.has_image(DEBIAN):
        _bootstrap(engine)
    _make(engine, name)
    return "made"


def _answers(registry: str) -> bool:
    host = "registry-1.docker.io" if registry == "docker.io" else registry
    try:
        with urllib.request.urlopen(f"https://{host}/v2/", timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 401  # asks who the client is: it is there
    except OSError:
        return False


def _bootstrap(engine: Engine) -> None:
    """Debian itself. In memory, because dpkg waits for the disk after every file."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of Bellwether is made in it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), _mirror()]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
        subprocess.run(["umount", str(root / "proc")], check=False, capture_output=True)
        if done.returncode != 0:
            raise EngineError(f"debootstrap: {done.stdout[-1000:]}")
        archive = Path(folder) / "root.tar"
        left_out = [f"--exclude=./{path}" for path in ("proc/*", "sys/*", "var/cache/apt")]
        subprocess.run(["tar", "-C", str(root), *left_out, "-cf", str(archive), "."], check=True, timeout=300)
        path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        engine.run("import", "--change", path, str(archive), DEBIAN, limit_s=300)


def _mirror() -> str:
    """The one that this machine's own packages come from."""
    for file in (*Path("/etc/apt/sources.list.d").glob("debian*"), Path("/etc/apt/sources.list")):
        for line in file.read_text().splitlines() if file.is_file() else ():
            if line.startswith(("URIs:", "deb ")) and "security" not in line:
                return line.split()[1]
    return "http://deb.debian.org/debian"


def _make(engine: Engine, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(HERE, context, dirs_exist_ok=True)
        shutil.copy(ROOT / "tests" / "java" / "pom.xml", context)
        for trusted in ("ca-certificates.crt", "java/cacerts"):
            (context / "certs" / trusted).parent.mkdir(parents=True, exist_ok=True)
            if (CERTIFICATES / trusted).exists():
                shutil.copy(CERTIFICATES / trusted, context / "certs" / trusted)
        base = BASES[name]
        arguments = [f"{key}={value}" for key, value in base.arguments.items()]
        engine.build(name, context / base.dockerfile, context, arguments=arguments)


def main() -> None:
    for name, origin in provide(engine()).items():
        sys.stdout.write(f"{origin:8} {name}\n")


if __name__ == "__main__":
    main()
