"""What is in the image: who it runs as, what it weighs, what it does without, what it is made of, how it starts."""

import contextlib
import gzip
import io
import json
import os
import re
import statistics
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any

from tests.deploy.containers.bases import DISTROLESS
from tests.deploy.containers.engine import HOME, Engine, engine
from tests.paths import ROOT

IMAGE = "docker.io/library/bellwether-bellwether"
SHELLS = {"sh", "bash", "dash", "ash", "zsh", "busybox"}
INSTALLERS = {"apt", "apt-get", "dpkg", "pip", "pip3", "rpm", "apk"}
SIZE_LIMIT_MB = 200
STARTS = 5
START_LIMIT_S = 1.5  # of the quickest: others may be at work beside it
LOCKED_DOWN = ("--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
ALONE = (*LOCKED_DOWN, "--network=none")
TIMED = """
import resource, subprocess, time
began = time.monotonic()
subprocess.run(["python3", "-m", "bellwether_kafka", "--version"], check=True, capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


@contextlib.contextmanager
def contents(own: Engine, image: str) -> Iterator[tarfile.TarFile]:
    """Every file of the image."""
    archive = own.home / "image.tar"
    container = own.run("create", image).strip()
    try:
        own.run("export", "--output", str(archive), container, limit_s=300)
        with tarfile.open(archive) as opened:
            yield opened
    finally:
        own.run("rm", container)
        archive.unlink(missing_ok=True)


def components(files: tarfile.TarFile) -> list[dict[str, Any]]:
    """The Python distributions that are in it, as CycloneDX names them."""
    components_seen = []
    for member in files:
        if re.fullmatch(r"opt/bellwether/[^/]+\.dist-info/METADATA", member.name):
            opened = files.extractfile(member)
            assert opened is not None
            reported = HeaderParser().parse(io.TextIOWrapper(opened, encoding="utf-8", errors="replace"))
            name, version = re.sub(r"[-_.]+", "-", str(reported["Name"])).lower(), str(reported["Version"])
            entry: dict[str, Any] = {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
            }
            if licence := reported["License-Expression"] or reported["License"]:
                entry["licenses"] = [{"license": {"name": str(licence).splitlines()[0][:100]}}]
            components_seen.append(entry)
    return sorted(components_seen, key=lambda each: str(each["name"]))


def bill_of_materials(image_id: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """CycloneDX 1.5 of an image."""
    subject = {"type": "container", "name": "bellwether", "version": image_id}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": {"component": subject}, "components": parts}


def unlocked(parts: list[dict[str, Any]]) -> list[str]:
    """What is in the image in another version than in the lock file."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {(package["name"], package["version"]) for package in packages}  # some in a version for each Python
    return [part["name"] for part in parts if (part["name"], part["version"]) not in locked]


def compressed_mb(own: Engine, image: str) -> float:
    """Of the layers that its base does not have, as a registry would keep them."""
    below = set(own.ask("image", "inspect", DISTROLESS)[0]["RootFS"]["Layers"])
    archive = own.home / "layers.tar"
    own.run("save", "--output", str(archive), image, limit_s=300)
    total = 0
    try:
        with tarfile.open(archive) as saved:
            manifest = json.loads(_read(saved, "manifest.json"))[0]
            names = json.loads(_read(saved, manifest["Config"]))["rootfs"]["diff_ids"]
            for layer, name in zip(manifest["Layers"], names, strict=True):
                if name not in below:
                    total += len(gzip.compress(_read(saved, layer), 6))
    finally:
        archive.unlink()
    return total / 1e6


def _read(saved: tarfile.TarFile, name: str) -> bytes:
    opened = saved.extractfile(name)
    assert opened is not None
    return opened.read()


def starts(own: Engine, image: str) -> list[tuple[float, float, float]]:
    """Wall time and processor time in seconds, and resident MiB, of `bellwether --version`, several times."""
    run = ("run", *ALONE, "--entrypoint", "python3", image, "-c", TIMED)
    return [tuple(map(float, own.run(*run).split())) for _ in range(STARTS)]  # type: ignore[misc]


def prove_image(own: Engine, image: str = IMAGE) -> int:
    """Prints what was found; 0 if all of it is as promised."""
    (inspected,) = own.ask("image", "inspect", image)
    config = inspected["Config"]
    with contents(own, image) as files:
        programs = {PurePosixPath(m.name).name for m in files if m.mode & 0o111 and not m.isdir()}
        setuid = [m.name for m in files if m.isfile() and m.mode & 0o6000]
        parts = components(files)
    bill = own.home / "bellwether-sbom.json"
    bill.write_text(json.dumps(bill_of_materials(inspected["Id"], parts), indent=1) + "\n")
    size_mb, runs = compressed_mb(own, image), sorted(starts(own, image))
    labels = {name.rsplit(".", 1)[1]: value for name, value in config["Labels"].items() if "opencontainers" in name}
    can_sign = "import botocore.auth, botocore.session; print('yes')"
    check = inspected.get("Healthcheck") or {}
    signs = own.run("run", *ALONE, "--entrypoint", "python3", image, "-c", can_sign).strip()
    facts = {
        "runs as": (config["User"], config["User"] == "65532:65532"),
        "shells": (sorted(programs & SHELLS) or "none", not programs & SHELLS),
        "package managers": (sorted(programs & INSTALLERS) or "none", not programs & INSTALLERS),
        "files with setuid": (setuid or "none", not setuid),
        "labels": (labels, {"title", "version", "licenses"} <= labels.keys()),
        "health check": (" ".join(check.get("Test", [])[1:3]), bool(check)),
        "can sign for MSK": (signs, signs == "yes"),
        "components, not as locked": (f"{len(parts)}, {unlocked(parts) or 'none'}", parts and not unlocked(parts)),
        "compressed, beyond the base": (f"{size_mb:.0f} MB", size_mb <= SIZE_LIMIT_MB),
        "start, processor time": (f"{statistics.median(run[1] for run in runs):.2f} s", True),
        "start, wall time": (f"{runs[0][0]:.2f}-{runs[-1][0]:.2f} s", runs[0][0] < START_LIMIT_S),
        "resident after the start": (f"{max(run[2] for run in runs):.0f} MiB", True),
    }
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}; bill of materials: {bill}\n")
    return reported(facts)


def reported(facts: Mapping[str, tuple[object, object]]) -> int:
    """Prints each fact, and marks what does not hold; 0 if all of it does."""
    for name, (value, kept) in facts.items():
        sys.stdout.write(f"| {name} | {value} |{'' if kept else '  <- not as it should be'}\n")
    return 0 if all(kept for _, kept in facts.values()) else 1


def main(home: Path = HOME) -> int:
    began = time.monotonic()
    outcome = prove_image(engine(home))
    sys.stdout.write(f"image: {time.monotonic() - began:.0f} s\n")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
