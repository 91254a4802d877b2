"""`python -m tests.watched_process ...`: the command `bellwether`, which says on standard error where a thread that
sends heartbeats does what may delay them (`tests.loop_watchdog`).

The variable CONSTANTS_OF_TESTS has constants of a membership, and `metadata_interval_ms`, as JSON: machines that run
tests may be slow, and no user has a setting for it.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace

from bellwether_kafka.coordinator.cli import main
from bellwether_kafka.coordinator.membership import MembershipConfig
from bellwether_kafka.coordinator.runtime import Service
from bellwether_kafka.coordinator.settings import GroupSettings
from tests import loop_watchdog

MARK = "BLOCKS HEARTBEATS: "
CONSTANTS = "CONSTANTS_OF_TESTS"


def set_constants(given: dict[str, int]) -> None:
    Service.__init__.__kwdefaults__["watch_interval_ms"] = given.pop("metadata_interval_ms", 10_000)
    membership = GroupSettings.membership

    def patient(group: GroupSettings, instance_id: str | None) -> MembershipConfig:
        return replace(membership(group, instance_id), **given)  # type: ignore[arg-type]  # all are numbers

    GroupSettings.membership = patient  # type: ignore[method-assign]  # for this process


def run(work: Callable[[], object] = main) -> None:
    loop_watchdog.install(lambda what: print(f"{MARK}{what!r}", file=sys.stderr, flush=True))
    work()


if __name__ == "__main__":
    set_constants(json.loads(os.environ.get(CONSTANTS, "{}")))
    run()
