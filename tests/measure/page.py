"""`python -m tests.measure.page`: how long the page takes for a group of 2,000 members and 10,000 partitions, and for
a thousand groups. The answer is timed in the process that makes it, the rest in chromium.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from bellwether_kafka.coordinator.web.trends import POINTS
from tests.browser import Browser
from tests.unit.coordinator.web.large import GROUPS, LARGE, MEMBERS, PARTITIONS, TOPICS, application
from tests.unit.coordinator.web.shown import served

ADDRESSES = {f"{MEMBERS:,} members, {TOPICS * PARTITIONS:,} partitions": f"#{LARGE}", f"{GROUPS:,} groups": ""}
API = {f"#{LARGE}": f"/api/groups/{LARGE}", "": "/api/overview"}


def milliseconds(work: Callable[[], object], runs: int, clock: Callable[[], float]) -> list[float]:
    found = []
    for _ in range(runs):
        began = clock()
        work()
        found.append(1e3 * (clock() - began))
    return found


def told(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ms in the median, {min(times):.0f} to {max(times):.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.page", description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    console, web = Console(soft_wrap=True, highlight=False), application()
    new_folder = tempfile.TemporaryDirectory(prefix="bellwether-", ignore_cleanup_errors=True)
    with served(web) as page, new_folder as folder, Browser(Path(folder) / "profile") as browser:
        browser.size(1280, 900)
        for name, address in ADDRESSES.items():
            path = API[address]
            size = len(web.answer("GET", path).body)
            console.print(f"{name}, {size / 1e6:.1f} MB of JSON, {options.runs} runs")
            for clock, of in ((time.thread_time, "computed"), (time.perf_counter, "waited for")):
                times = milliseconds(partial(web.answer, "GET", path), options.runs, clock)
                console.print(f"  the answer, {of}: {told(times)}")
            whole = []
            for _ in range(options.runs):
                browser.open(page + address, "document.body.dataset.tookMs")
                whole.append(float(browser.run("document.body.dataset.tookMs")))
            console.print(f"  from the question to the end of layout, the answer included: {told(whole)}")
    console.print(f"curves of {GROUPS:,} groups: {POINTS} values of 8 bytes each, {GROUPS * POINTS * 8 / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
