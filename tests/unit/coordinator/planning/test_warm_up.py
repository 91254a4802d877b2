"""After the warm-up, a plan imports nothing any more."""

import subprocess
import sys

import pytest

from tests.paths import ROOT

FIRST_PLAN = """
import sys
from bellwether_kafka.coordinator.planning import threads
from bellwether_kafka.coordinator.runtime import process
{warm}
before = set(sys.modules)
threads.warm_up()
print(len(set(sys.modules) - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("warm", "imports_more"), [("", True), ("threads.warm_up()", False)])
def test_only_the_first_plan_imports_anything(warm: str, imports_more: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PLAN.format(warm=warm)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (int(done.stdout) > 0) == imports_more
