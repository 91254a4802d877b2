"""Names reach a language through its function, and text of people is read as a number by one function."""

import re

import pytest

from tests.paths import ROOT
from tests.source_trees import modules_of, text_of

DOORS = {
    r"typer\.echo\(": {"coordinator/cli/output.py"},
    r"shlex\.(?:quote|join)\(": {"coordinator/names/languages.py"},
    r"html(?:\.escape\(| import)": {"coordinator/names/languages.py"},
    r"\.isprintable\(": {"coordinator/names/languages.py", "coordinator/cli/output.py", "coordinator/cli/top.py"},
    r"unicode_escape\b": {"coordinator/names/languages.py"},
    r"\.is(?:digit|decimal|numeric)\(": {
        "protocol/primitives/types.py",
        "assignors/streams/placing/even.py",  # a weight of at most ten digits
        "coordinator/planning/broker_assigned.py",  # whether every id is one
        "coordinator/serving/task_request_views.py",  # the same
        "coordinator/topology/existing.py",  # whether a part of a name is one
        "coordinator/kafka/wire/tokens.py",
    },
}


@pytest.mark.parametrize("pattern", DOORS)
def test_nothing_else_does_it(pattern: str) -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in modules_of("assignors", "coordinator", "protocol")
        if re.search(pattern, text_of(path))
    }
    assert users <= DOORS[pattern]
