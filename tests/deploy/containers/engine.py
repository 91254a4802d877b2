"""A container engine of its own: podman with its storage, networks and socket below one folder.

Nothing of another engine on the machine is read or changed. What a daemon or systemd would do elsewhere (health checks
at their intervals) a thread does here.
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.paths import ROOT

HOME = ROOT / ".cache" / "containers"
PACKAGES = ("podman", "buildah", "runc", "netavark", "aardvark-dns", "catatonit", "iptables", "nftables", "debootstrap")
PROGRAMS = ("podman", "runc", "debootstrap")
BUILD_LIMIT_S = 900.0
COMMAND_LIMIT_S = 120.0


class MissingEngineError(Exception):
    """There is no engine and none can be installed; the message says what is missing."""


class EngineError(Exception):
    """podman refused; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Engine:
    """podman with its files in this folder. Times are in seconds."""

    home: Path = HOME
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, limit_s: float = COMMAND_LIMIT_S, standard_input: str | None = None) -> str:
        """What podman prints. Raises EngineError where it fails or takes too long."""
        try:
            done = subprocess.run(
                ["podman", *arguments],
                check=False,
                env=self.environment,
                input=standard_input,
                capture_output=True,
                text=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise EngineError(f"podman {arguments[0]} took more than {limit_s:.0f} s") from None
        if done.returncode != 0:
            raise EngineError(f"podman {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def ask(self, *arguments: str) -> Any:
        """What podman prints as JSON."""
        return json.loads(self.run(*arguments) or "null")

    def build(
        self, tag: str, dockerfile: Path, context: Path, *, target: str = "", arguments: Sequence[str] = ()
    ) -> None:
        """Builds with the network of the machine, and from images that are here."""
        options = ["--pull=never", "--network=host", "--isolation=chroot", "--format=docker", "--layers"]
        options += [f"--target={target}"] if target else []
        options += [f"--build-arg={argument}" for argument in arguments]
        self.run("build", *options, "--tag", tag, "--file", str(dockerfile), str(context), limit_s=BUILD_LIMIT_S)

    def has_image(self, name: str) -> bool:
        return subprocess.run(["podman", "image", "exists", name], check=False, env=self.environment).returncode == 0

    def state(self, container: str) -> Mapping[str, Any]:
        """What podman knows of a container: Status, ExitCode, OOMKilled, Pid, Health."""
        (description,) = self.ask("inspect", container)
        return {**description["State"], "RestartCount": description["RestartCount"]}

    def address(self, container: str, network: str) -> str:
        """Its address in this network."""
        (description,) = self.ask("inspect", container)
        return str(description["NetworkSettings"]["Networks"][network]["IPAddress"])

    def logs(self, container: str) -> str:
        done = subprocess.run(
            ["podman", "logs", container], check=False, env=self.environment, capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    @contextmanager
    def served(self) -> Iterator[str]:
        """Docker's API on a socket below `home`, as an address for DOCKER_HOST."""
        path = self.home / "podman.sock"
        path.unlink(missing_ok=True)
        address = f"unix://{path}"
        log = (self.home / "service.log").open("w")
        process = subprocess.Popen(
            ["podman", "system", "service", "--time=0", address],
            cwd=self.home,  # where it leaves an empty file `oom` when the memory of a container runs out
            env=self.environment,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for_socket(path, process)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)
            log.close()

    @contextmanager
    def healthchecks_run(self) -> Iterator[None]:
        """Every container's health check at its interval, as a daemon would."""
        over = threading.Event()
        thread = threading.Thread(target=self._check_healths, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=60)

    def _check_healths(self, over: threading.Event) -> None:
        due_at_s: dict[str, float] = {}
        while not over.wait(1.0):
            try:
                running = [c["Id"] for c in self.ask("ps", "--format=json") or () if c["State"] == "running"]
                for description in self.ask("inspect", *running) if running else ():
                    check = description["Config"].get("Healthcheck") or {}
                    if (
                        check.get("Test", ["NONE"])[0] == "NONE"
                        or due_at_s.get(description["Id"], 0) > time.monotonic()
                    ):
                        continue
                    command = ["podman", "healthcheck", "run", description["Id"]]
                    subprocess.run(command, check=False, env=self.environment, capture_output=True, timeout=60)
                    due_at_s[description["Id"]] = time.monotonic() + check.get("Interval", 30e9) / 1e9
            except (EngineError, subprocess.TimeoutExpired, KeyError):
                continue  # a container that went away between two questions


def engine(home: Path = HOME) -> Engine:
    """One that works on this machine, installed from Debian's packages where it is missing.

    Raises MissingEngineError where that is impossible.
    """
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        _install(missing)
    home.mkdir(parents=True, exist_ok=True)
    files = {
        "CONTAINERS_CONF": (home / "containers.conf", _containers_conf(home)),
        "CONTAINERS_STORAGE_CONF": (home / "storage.conf", _storage_conf(home)),
        "CONTAINERS_REGISTRIES_CONF": (home / "registries.conf", 'unqualified-search-registries = ["docker.io"]\n'),
    }
    for path, text in files.values():
        path.write_text(text)
    paths = {name: str(path) for name, (path, _) in files.items()}
    made = Engine(home, {**os.environ, **paths, "DISABLE_HC_SYSTEMD": "true"})
    try:
        made.run("info")
    except EngineError as error:
        raise MissingEngineError(f"podman does not run here: {error}") from None
    return made


def _install(missing: Sequence[str]) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingEngineError(f"{', '.join(missing)} missing, and only root on Debian can install an engine here")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(["apt-get", *command], check=False, env=environment, capture_output=True, timeout=600)
        if done.returncode != 0:
            raise MissingEngineError(f"{', '.join(missing)} missing, and apt-get cannot install an engine")


def _containers_conf(home: Path) -> str:
    """runc, because crun needs one kind of cgroups throughout. Limits can only be lowered: they are the machine's."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return f"""[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=2000:2000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{home}/run/libpod"
volume_path = "{home}/volumes"
[network]
network_backend = "netavark"
network_config_dir = "{home}/networks"
"""


def _storage_conf(home: Path) -> str:
    return f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/storage"\nrunroot = "{home}/run/storage"\n'


def _wait_for_socket(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                time.sleep(0.1)
            else:
                return
    raise EngineError(f"podman's service does not answer at {path}")
