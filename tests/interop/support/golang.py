"""Builds the Go member programs once, into `.cache/go` of the checkout."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.interop.support.jvm import CACHE, MissingToolError, file_lock
from tests.paths import ROOT

SOURCES = ROOT / "tests" / "go"


def go_members() -> Path:
    """The program that hosts franz-go, sarama and kafka-go members. Raises MissingToolError without Go."""
    go = shutil.which("go")
    if go is None:
        raise MissingToolError("go is not installed")
    base = CACHE / "go"
    with file_lock(base / ".lock"):
        digest = hashlib.sha256()
        for source in sorted(p for p in SOURCES.iterdir() if p.suffix in (".go", ".mod", ".sum")):
            digest.update(source.name.encode() + source.read_bytes())
        program = base / f"members-{digest.hexdigest()[:16]}"
        if not program.exists():
            _build(go, base, program)
    return program


def _build(go: str, base: Path, program: Path) -> None:
    for old in base.glob("members-*"):
        old.unlink()
    # -modcacherw: without it the module cache is read-only and cannot be removed together with .cache.
    command = [go, "build", "-modcacherw", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    places = {"GOMODCACHE": str(base / "mod"), "GOCACHE": str(base / "build"), "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(
        command, cwd=SOURCES, env=os.environ | places, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"go build failed:\n{done.stderr[-3000:]}")
