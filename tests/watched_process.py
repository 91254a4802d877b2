"""`python -m tests.watched_process ...`: the command `bellwether`, which says on standard error where a thread that
sends heartbeats does what may delay them (`tests.loop_watchdog`)."""

import sys
from collections.abc import Callable

from bellwether_kafka.coordinator.cli import main
from tests import loop_watchdog

MARK = "BLOCKS HEARTBEATS: "


def run(work: Callable[[], object] = main) -> None:
    loop_watchdog.install(lambda what: print(f"{MARK}{what!r}", file=sys.stderr, flush=True))
    work()


if __name__ == "__main__":
    run()
