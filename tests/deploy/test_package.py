"""The archive and the wheel that users install, built as a publisher builds them: the wheel from the archive."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.timeout(300)
PACKAGES = ("protocol", "assignors", "coordinator", "pipeline")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["uv", "build", "--quiet", "--out-dir", str(target), str(ROOT)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return target


def in_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_checkout() -> set[str]:
    """Every file that the product needs, as the wheel names it."""
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], check=True, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    return {f"bellwether_kafka/{name}" for name in tracked.stdout.split()}


def test_the_wheel_has_every_file_of_every_package(built: Path) -> None:
    """hatchling visits a folder once, and some packages are links: a wheel built from the archive once lacked one."""
    assert in_checkout() - in_wheel(built) == set()


def test_the_wheel_has_one_import_name_and_no_tests(built: Path) -> None:
    roots = {name.split("/")[0] for name in in_wheel(built)}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"bellwether_kafka"}
    assert not [name for name in in_wheel(built) if {"tests", "conftest.py"} & {*name.split("/")}]
    assert "bellwether_kafka/py.typed" in in_wheel(built)
    assert any(name.endswith("/licenses/LICENSE") for name in in_wheel(built))


def test_the_archive_holds_ordinary_files_and_the_licence(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    assert not [member.name for member in members if not member.isfile() and not member.isdir()]
    assert any(member.name.endswith("/LICENSE") for member in members)
