"""Java's side of a comparison: problems go to a referee as lines of JSON, and its answers come back."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tests.interop.support.jvm import Java

TIMEOUT_S = 300


class Wired(Protocol):
    """A problem that can be sent."""

    def wire(self) -> Mapping[str, object]: ...


def ask(jvm: Java, referee: str, problems: Sequence[Wired]) -> list[dict[str, Any]]:
    """What the main class `referee` answers to each problem."""
    lines = "".join(json.dumps(p.wire()) + "\n" for p in problems)
    command = jvm.command(referee, options=("-Dorg.slf4j.simpleLogger.defaultLogLevel=off",))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(problems), done.stderr[-2000:]
    return answers
