"""Names reach a language through its function, and text of people is read as a number by one function."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

DOORS = {
    r"\btyper\.echo\(": {"coordinator/cli/output.py"},
    r"\bshlex\.(?:quote|join)\(": {"coordinator/names/languages.py"},
    r"\bhtml\.escape\(|\bfrom html import": {"coordinator/names/languages.py"},
    r"\.isprintable\(": {"coordinator/names/languages.py", "coordinator/cli/output.py", "coordinator/cli/top.py"},
    r"\bunicode_escape\b": {"coordinator/names/languages.py"},
    r"\.is(?:digit|decimal|numeric)\(": {
        "protocol/primitives/whole_number.py",
        "assignors/streams/application/java_pattern.py",  # whether a character of a pattern is one
        "assignors/streams/stages/capacity.py",  # a weight of at most ten digits
        "coordinator/guard/signals.py",  # whether an entry of /proc is a process
        "coordinator/planning/broker_assigned.py",  # whether every id is one
        "coordinator/serving/task_request_views.py",  # the same
        "coordinator/topology/existing.py",  # whether a part of a name is one
        "coordinator/kafka/tokens.py",
    },
}


@pytest.mark.parametrize("pattern", DOORS)
def test_nothing_else_does_it(pattern: str) -> None:
    users = {
        str(path.relative_to(ROOT))
        for folder in ("assignors", "coordinator", "protocol")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(pattern, Path(path).read_text(encoding="utf-8"))
    }
    assert users <= DOORS[pattern]
