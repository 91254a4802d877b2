"""What is published agrees with itself: one version everywhere, types that others may check against."""

import re
import tomllib
from collections.abc import Iterator

import pytest
import yaml

from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMED = re.compile(r'(?:\bbellwether:|image\.version=")(\d+\.\d+\.\d+)')
FOLDERS = ("deploy", "docs")
ENDINGS = {".Dockerfile", ".md", ".yaml", ".yml"}


def versions_named() -> Iterator[tuple[str, str]]:
    """Each version of the image that a file names, with the file."""
    pages = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS)
    for path in [ROOT / "Dockerfile", ROOT / "docker-compose.yml", ROOT / "README.md", *pages]:
        yield from (
            (str(path.relative_to(ROOT)), version) for version in NAMED.findall(path.read_text(encoding="utf-8"))
        )


def test_every_image_that_is_named_has_the_version_of_the_distribution() -> None:
    named = list(versions_named())
    assert len({file for file, _ in named}) >= 6, named
    assert [name for name in named if name[1] != PROJECT["version"]] == []


@pytest.mark.parametrize("field", ["version", "appVersion"])
def test_the_chart_has_the_version_of_the_distribution(field: str) -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/bellwether/Chart.yaml").read_text(encoding="utf-8"))
    assert chart[field] == PROJECT["version"]


@pytest.mark.slow
def test_the_lock_file_has_the_version_of_the_distribution() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    (own,) = [package for package in lock["package"] if package["name"] == PROJECT["name"]]
    assert own["version"] == PROJECT["version"]


def test_the_package_says_that_it_has_types() -> None:
    """One marker counts for all packages below it (PEP 561), and the distribution owns one import name."""
    assert (ROOT / "bellwether_kafka" / "py.typed").is_file()


def test_the_licence_is_the_one_that_is_declared_and_complete() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["license"] == "Apache-2.0"
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_extra_says_where_it_is_documented() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    for extra in PROJECT["optional-dependencies"]:
        named = (f"bellwether-kafka[{extra}]", f".[{extra}]")  # the package, and a checkout
        assert any(name in text for text in pages for name in named), extra
