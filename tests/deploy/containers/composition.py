"""A composition as it is, started by the real Compose on an engine of its own. Only the ports on loopback are
others, so that it can run beside anything, and Grafana is left out where its image is not here."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.deploy.containers.bases import provide
from tests.deploy.containers.engine import HOME, Engine, EngineError, MissingEngineError, engine
from tests.interop.support.ports import PortLease
from tests.paths import ROOT

PROJECT = "bellwether"
GRAFANA = "docker.io/grafana/grafana:11.4.0"
UP_LIMIT_S = 900.0
TOOLS = f"{ROOT / '.cache' / 'bin'}{os.pathsep}{os.environ['PATH']}"


@dataclass(frozen=True, slots=True)
class Published:
    """A composition's file, the project that it names, the ports that its services publish, and what the smoke script
    is asked."""

    file: str
    project: str
    ports: Mapping[str, int]
    served: bool = False


WHOLE = Published("docker-compose.yml", PROJECT, {"bellwether": 9790, "prometheus": 9090, "grafana": 3000})
SERVED = Published(
    "deploy/compose/broker-assignor.yml",
    "bellwether-broker-assignor",
    {f"bellwether-{number}": 9790 for number in (1, 2, 3)},
    served=True,
)


@dataclass(frozen=True, slots=True)
class Composition:
    """A composition on `engine`; `ports` are those on loopback, by service."""

    engine: Engine
    compose: str
    docker_host: str
    override: Path
    ports: Mapping[str, int]
    what: Published = WHOLE
    services: Mapping[str, Any] = field(default_factory=dict)

    def run(self, *arguments: str, limit_s: float = UP_LIMIT_S) -> str:
        """What docker-compose prints. Raises EngineError."""
        command = [self.compose, "-f", str(ROOT / self.what.file), "-f", str(self.override), *arguments]
        environment = {**self.engine.environment, "DOCKER_HOST": self.docker_host}
        done = subprocess.run(
            command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s
        )
        if done.returncode != 0:
            raise EngineError(f"docker-compose {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def build(self) -> None:
        """Each Dockerfile once, under the name of every service that is built from it."""
        made: dict[tuple[str, str], str] = {}
        for name, service in self.services.items():
            if (build := service.get("build")) is None:
                continue
            image = service.get("image", f"{self.what.project}-{name}")
            tag, origin = f"docker.io/library/{image}", (build["context"], build["dockerfile"])
            if made.get(origin) == tag:
                continue
            if origin in made:
                self.engine.run("tag", made[origin], tag)
            else:
                self.engine.build(tag, Path(build["context"]) / build["dockerfile"], Path(build["context"]))
                made[origin] = tag

    def up(self, *services: str) -> None:
        """Starts them, and what they depend on; waits for the latter only."""
        self.run("up", "--detach", "--no-build", *(services or self.services))

    def down(self) -> None:
        self.run("down", "--timeout", "5", "--volumes", "--remove-orphans")

    def container(self, service: str) -> str:
        return f"{self.what.project}-{service}-1"

    def get(self, service: str, path: str, *, limit_s: float = 5.0) -> str:
        """What a published service answers. Raises OSError."""
        url = f"http://127.0.0.1:{self.ports[service]}{path}"
        with urllib.request.urlopen(url, timeout=limit_s) as answer:
            return str(answer.read().decode())

    def smoke(self, limit_s: float) -> subprocess.CompletedProcess[str]:
        """deploy/compose/smoke.py against it."""
        addresses = {name: f"http://127.0.0.1:{port}" for name, port in self.ports.items()}
        if self.what.served:
            asked = ["--served", "--beside", *addresses.values()]
        else:
            asked = [f"--{name}={address}" for name, address in addresses.items()]
            asked += [] if "grafana" in self.services else ["--without-grafana"]
        command = [sys.executable, "deploy/compose/smoke.py", f"--limit-s={limit_s}", *asked]
        return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=limit_s + 60)


@contextmanager
def composition(home: Path = HOME, what: Published = WHOLE) -> Iterator[Composition]:
    """One whose images are built and whose containers do not run yet; it is torn down in the end.

    Raises MissingEngineError where something cannot be had here.
    """
    compose = shutil.which("docker-compose", path=TOOLS)
    if compose is None:
        raise MissingEngineError("docker-compose is missing; make check-deploy builds it, with Go")
    own = engine(home)
    leases = {name: PortLease() for name in what.ports}
    with own.served() as docker_host, own.healthchecks_run():
        ports = {name: lease.port for name, lease in leases.items()}
        override = home / "ports.yaml"
        override.write_text(_override(ports, what))
        made = Composition(own, compose, docker_host, override, ports, what, _services(compose, own, override, what))
        made.down()  # what a run before may have left
        try:
            yield made
        finally:
            made.down()
            for lease in leases.values():
                lease.release()


def _override(ports: Mapping[str, int], what: Published) -> str:
    lines = [
        f'  {name}: {{ ports: !override ["127.0.0.1:{port}:{what.ports[name]}"] }}' for name, port in ports.items()
    ]
    return "\n".join(["services:", *lines, ""])


def _services(compose: str, own: Engine, override: Path, what: Published) -> Mapping[str, Any]:
    files = ["-f", what.file, "-f", str(override)]
    reported = subprocess.run(
        [compose, *files, "config", "--format", "json"], check=True, cwd=ROOT, capture_output=True, text=True
    )
    services: dict[str, Any] = json.loads(reported.stdout)["services"]
    if not own.has_image(GRAFANA):
        services.pop("grafana", None)
    return services


def with_images(made: Composition) -> Mapping[str, str]:
    """Bases provided and Dockerfiles built; where each base came from."""
    origins = provide(made.engine)
    made.build()
    return origins
