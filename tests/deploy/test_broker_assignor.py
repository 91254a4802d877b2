"""The jar of assignors for brokers, built as a user builds it: against the oldest broker that may load it."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether_kafka.assignors.consumer import POLICIES
from tests.deploy.jars import packaged
from tests.paths import DOCS, ROOT

FOLDER = ROOT / "deploy/broker-assignor"
SOURCES = FOLDER / "src/main/java"
LINES_MAX = 600  # of code: what runs in a broker must be easy to read as a whole

pytestmark = pytest.mark.timeout(600)  # once, Maven fetches its plug-ins


@pytest.fixture(scope="module")
def jars(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder in which `mvn package` leaves its jars."""
    with packaged(request.config, FOLDER) as target:
        yield target


def test_the_jar_has_its_classes_the_licence_and_nothing_of_kafka(jars: Path) -> None:
    with zipfile.ZipFile(jars / "broker-assignor.jar") as jar:
        names = {name for name in jar.namelist() if not name.endswith("/")}
        assert jar.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
        version = jar.read("bellwether/broker/BellwetherAssignor.class")[6:8]
    assert {name for name in names if not name.startswith(("META-INF/", "bellwether/broker/"))} == set()
    assert int.from_bytes(version, "big") == 61, "a broker on Java 17 can load it"


def test_each_policy_has_a_class_and_the_guide_lists_it(jars: Path) -> None:
    guide = (DOCS / "guides/beyond-classic.md").read_text(encoding="utf-8")
    with zipfile.ZipFile(jars / "broker-assignor.jar") as jar:
        for policy in POLICIES:
            name = f"{policy.title().replace('-', '')}Assignor"
            assert f"bellwether/broker/{name}.class" in jar.namelist()
            assert f"`{name}`" in guide
            assert f'super("bellwether-{policy}")' in (SOURCES / f"bellwether/broker/{name}.java").read_text()


def test_it_stays_small() -> None:
    lines = [line for path in SOURCES.rglob("*.java") for line in path.read_text().splitlines()]
    assert sum(not re.match(r"\s*(/?\*|//|$)", line) for line in lines) <= LINES_MAX
