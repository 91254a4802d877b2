"""The files that grant rights: what they grant is what the guide says, under the names that settings have."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from bellwether_kafka.coordinator.kafka.wire import TEMPORARY_TOPIC
from tests.command_lines import COMMANDS
from tests.paths import ROOT

CONTROL_TOPIC = "bellwether-control"

ACL = ROOT / "deploy" / "acl"
GUIDE = (ROOT / "docs" / "reference" / "acls.md").read_text(encoding="utf-8")
EVENTS = next(
    option.default for option in COMMANDS.commands["debug"].commands["history"].loaded.params if option.name == "topic"
)
WEIGHTS = "bellwether.weights"

Grant = tuple[str, str, str, str]  # operation, kind of the resource, its name, literal or prefixed

# The rows of the guide, by what they begin with, and the features of the script that grant them.
FEATURES = {
    "observe": ("observe g t",),
    "assist": ("assist g",),
    "guard": ("guard g t", "control", "transactions g"),
    "lead, take-over, succeed": ("lead g t",),
    "lead a Streams application": ("streams g t", "cluster"),
    "`topology learn`": ("topology g",),
    "orders, standby": ("control",),
    "plug-in for brokers": ("observe g t",),
    "orders in groups that a broker assigns": ("served g t",),
    "events": ("events",),
    "weights": ("weights",),
    "your own writer": ("writer",),
    "the Spark jobs": ("jobs",),
    "`debug history`": ("jobs",),
    "plan, explain": ("control",),
    "sampled bytes": ("cluster",),
    "take-overs in which": ("cluster",),
    "doctor, in full": ("cluster", "doctor g"),
    "`convert`": ("observe g t", "cluster"),
    "reads across racks": ("cluster",),
}
KINDS = {"group": "group", "cluster": "cluster", "transactional": "transactional-id"}


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a kafka-acls.sh that prints its arguments."""
    folder = tmp_path_factory.mktemp("tool")
    (folder / "kafka-acls.sh").write_text("#!/bin/sh\nprintf '%s ' \"$@\"\necho\n")
    (folder / "kafka-acls.sh").chmod(0o755)
    return folder


def granted_by_script(tool: Path, feature: str) -> set[Grant]:
    command = [str(ACL / "kafka-acls.sh"), "b:9092", "User:bellwether", *feature.split()]
    path = {"PATH": f"{tool}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", *command], env=path, capture_output=True, text=True, check=True)
    return {grant for line in done.stdout.splitlines() for grant in of_arguments(line.split())}


def of_arguments(words: Sequence[str]) -> Iterator[Grant]:
    at = dict(pairwise(words))
    (kind,) = {"group", "topic", "transactional-id", "cluster"}.intersection(word.removeprefix("--") for word in words)
    name, pattern = at.get(f"--{kind}", ""), at.get("--resource-pattern-type", "literal")
    for option, value in pairwise(words):
        if option == "--operation":
            yield upper(value), kind, "" if kind == "cluster" else name, pattern


def granted_by_strimzi() -> Iterator[Grant]:
    for user in yaml.safe_load_all((ACL / "strimzi-user.yaml").read_text()):
        for acl in user["spec"]["authorization"]["acls"]:
            of = acl["resource"]
            kind = {"transactionalId": "transactional-id"}.get(of["type"], of["type"])
            pattern = {"prefix": "prefixed"}.get(of.get("patternType", ""), "literal")
            for operation in acl["operations"]:
                yield upper(operation), kind, of.get("name", ""), pattern


def upper(operation: str) -> str:
    return re.sub("(?<!^)([A-Z])", r"_\1", operation).upper()


def rows() -> Iterator[tuple[str, set[tuple[str, str]]]]:
    """Yields the feature and the (operation, kind) of each row of the guide; a row without a feature has the last."""
    feature = ""
    for line in GUIDE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "feature" or set(cells[0]) == {"-"}:
            continue
        feature, rights = cells[0] or feature, set(of_cell(cells[1]))
        assert rights or cells[1].startswith("as "), line
        yield feature, rights


def of_cell(text: str) -> Iterator[tuple[str, str]]:
    """Yields the rights that a cell names: operations, and behind them what they are on; "CREATE if it is missing" is
    on the same as the one before."""
    waiting: list[str] = []
    kind = ""
    for word in re.findall(r"`[A-Z_]{4,}`|\b(?:groups?|topics?|prefix|cluster|transactional)\b", text):
        if word.startswith("`"):
            waiting.append(word.strip("`"))
        elif waiting:
            kind = KINDS.get(word, "topic")
            yield from ((operation, kind) for operation in waiting)
            waiting = []
    yield from ((operation, kind) for operation in waiting)


def test_every_right_of_the_guide_is_granted_by_its_feature(tool: Path) -> None:
    described = list(rows())
    assert {next((f for f in FEATURES if row.startswith(f)), row) for row, _ in described} == FEATURES.keys()
    for row, rights in described:
        named = next(feature for feature in FEATURES if row.startswith(feature))
        granted = {grant[:2] for feature in FEATURES[named] for grant in granted_by_script(tool, feature)}
        assert rights <= granted, row


def test_the_script_grants_nothing_that_the_guide_does_not_name(tool: Path) -> None:
    named = {right for _, rights in rows() for right in rights}
    for features in FEATURES.values():
        for feature in features:
            assert {grant[:2] for grant in granted_by_script(tool, feature)} <= named, feature


def test_both_files_grant_the_same(tool: Path) -> None:
    features = {feature.split()[0] for each in FEATURES.values() for feature in each}
    named = {"observe": "orders orders", "lead": "orders orders", "streams": "counts clicks", "topology": "counts"}
    named |= {
        "assist": "orders",
        "guard": "orders orders",
        "transactions": "counts",
        "doctor": "counts",
        "served": "orders orders",
    }
    script = {grant for name in features for grant in granted_by_script(tool, f"{name} {named.get(name, '')}".rstrip())}
    assert script == set(granted_by_strimzi())


def test_the_names_are_those_of_the_settings(tool: Path) -> None:
    assert CONTROL_TOPIC == "bellwether-control"
    for feature, topic in (("control", "bellwether-control"), ("events", EVENTS), ("weights", WEIGHTS)):
        assert {grant[2] for grant in granted_by_script(tool, feature)} == {topic}
    assert ("DESCRIBE", "topic", TEMPORARY_TOPIC, "literal") in granted_by_script(tool, "served g t")
    sample = (ROOT / "deploy" / "config" / "bellwether.toml").read_text()
    for topic in (EVENTS, WEIGHTS):
        assert f'topic = "{topic}"' in sample
        assert {grant[2] for grant in granted_by_script(tool, "jobs")} >= {topic}


def test_a_feature_that_does_not_exist_is_refused(tool: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        granted_by_script(tool, "everything")
    assert refused.value.returncode == 2
