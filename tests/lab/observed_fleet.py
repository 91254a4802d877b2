"""`python -m tests.lab.observed_fleet`: what observing many groups costs.

Says how long it takes until every group has been described, how old the oldest description is afterwards, the CPU time
and the memory of the process, and what it asks of the brokers. Reads /proc, so Linux only.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.interop.support.bellwether import COMMAND, clean_environment, cpu_s, resident_mb
from tests.kit.answering_brokers import Size
from tests.kit.processes import Run, brokers, running
from tests.paths import ROOT

PARTITIONS, MEMBERS = 100, 4  # of each group
OBSERVED_S = 60.0
REFRESH_S = 15.0  # as often as Prometheus reads metrics in most installations


def measure(run: Run) -> Iterator[str]:
    requests, sizes, described = run.counted()
    cpu, began, oldest_s, most_mb = cpu_s(run.pid), time.monotonic(), 0.0, 0.0
    while time.monotonic() < began + OBSERVED_S:
        time.sleep(REFRESH_S)
        seen = run.seen_at()
        oldest_s = max(oldest_s, time.time() - min(seen.values()))
        most_mb = max(most_mb, resident_mb(run.pid))
    took = time.monotonic() - began
    used_s = cpu_s(run.pid) - cpu
    yield f"oldest description {oldest_s:.1f} s, {used_s / took:.1%} of a core, {most_mb:.0f} MB resident at most"
    after, sizes_after, described_after = run.counted()
    refreshes = described_after - described
    # On a machine that has no time for the run this still says what descriptions cost.
    each_ms = 1e3 * used_s / max(1, refreshes)
    yield f"{refreshes} descriptions; {each_ms:.2f} ms of a core for each, reading metrics included"
    for kind in sorted(after, key=lambda kind: sizes.get(kind, 0) - sizes_after[kind]):
        count, size = after[kind] - requests.get(kind, 0), sizes_after[kind] - sizes.get(kind, 0)
        if count:
            yield f"{kind}: {count / took:.2f} requests and {size / took / 1024:,.1f} KB a second, both directions"
    count, size = sum(after.values()) - sum(requests.values()), sum(sizes_after.values()) - sum(sizes.values())
    yield f"together: {count / took:.1f} requests and {size / took / 1024:,.0f} KB a second"


def list_groups(size: Size, times: int) -> Iterator[str]:
    """`bellwether groups` from its start to its end, beside the start of any command."""
    with brokers(size) as (_, servers):
        for arguments in (["--version"], ["groups", "--bootstrap", servers, "-o", "json"]):
            took, used = [], []
            for _ in range(times):
                began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
                command, environment = [*COMMAND, *arguments], clean_environment()
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=60)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took.append(time.monotonic() - began)
                used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                if arguments[0] == "groups":
                    assert len(json.loads(done.stdout)) == size.groups
            yield (
                f"bellwether {arguments[0]}: {min(took):.2f} s at best, {statistics.median(took):.2f} s in the middle"
                f" of {times}; CPU {min(used):.2f} s at best"
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.observed_fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--list", type=int, default=0, metavar="TIMES", help="time `bellwether groups` instead")
    options = parser.parse_args()
    size = Size(options.groups, PARTITIONS, MEMBERS)
    print(f"{size.groups} groups of {PARTITIONS} partitions and {MEMBERS} members, {OBSERVED_S:.0f} s", flush=True)
    if options.list:
        print(*list_groups(size, options.list), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="bellwether-fleet-") as folder, running(size, Path(folder)) as run:
        began = time.monotonic()
        run.wait_until_seen(size.groups)
        print(f"every group has been seen {time.monotonic() - began:.1f} s after the start", flush=True)
        print(*measure(run), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
