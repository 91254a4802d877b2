"""`python -m tests.measure.observed_fleet`: `bellwether run` with one pattern, before brokers that only answer looks.

Says how long it takes until every group has been seen, how old the oldest look is afterwards, the CPU time and the
memory of the process, and what it asks of the brokers. Reads /proc, so Linux only.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from tests.interop.support.bellwether import COMMAND, clean_environment, cpu_s, resident_mb, toml
from tests.interop.support.brokers import LOOPBACK, PortLease
from tests.paths import ROOT
from tests.support.answering_brokers import Brokers, Size, serve

LIMIT_S = 420.0
REFRESH_S = 15.0  # as often as Prometheus reads metrics in most installations
SEEN = "bellwether_observed_timestamp_seconds"
Counted = tuple[Mapping[str, int], Mapping[str, int], int]


class Run:
    """Both processes."""

    def __init__(self, link: Connection, process: "subprocess.Popen[bytes]", address: str) -> None:
        self._link = link
        self._process = process
        self._address = address

    @property
    def page(self) -> str:
        return f"http://{self._address}/"

    @property
    def pid(self) -> int:
        return self._process.pid

    def counted(self) -> Counted:
        """Requests and bytes by kind, and how many groups were described."""
        self._link.send(None)
        requests, sizes, described = self._link.recv()
        return requests, sizes, described

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._address}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def seen_at(self) -> dict[str, float]:
        """When each group was looked at last, seconds since 1970."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {s.labels["group"]: s.value for family in families for s in family.samples if s.name == SEEN}

    def wait_until_seen(self, groups: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "bellwether has ended"
            try:
                if sum(group["state"] == "stable" for group in json.loads(self.get("/api/groups"))) >= groups:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise TimeoutError(f"not all of {groups} groups have been seen within {LIMIT_S:.0f} s")


@contextmanager
def brokers(size: Size, kind: type[Brokers] = Brokers) -> Iterator[tuple[Connection, str]]:
    """The link to their process, and their addresses."""
    context = multiprocessing.get_context("spawn")
    link, other = context.Pipe()
    process = context.Process(target=serve, args=(size, other, kind), daemon=True)
    process.start()
    other.close()
    try:
        yield link, ",".join(f"{LOOPBACK}:{port}" for port in link.recv())
    finally:
        link.close()
        process.join(10)


@contextmanager
def running(
    size: Size,
    folder: Path,
    kind: type[Brokers] = Brokers,
    match: str = "team-*",
    *,
    led: Sequence[str] = (),
    **more: str,
) -> Iterator[Run]:
    """`led` are to be led once they are empty; `more` are settings."""
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    with brokers(size, kind) as (link, servers), (folder / "log").open("wb") as log:
        entries = [{"match": match}, *({"name": name, "mode": "lead", "adopt": "when-empty"} for name in led)]
        settings = toml({"bootstrap.servers": servers}, entries, http_address=address, **more)
        (folder / "bellwether.toml").write_text(settings)
        command = [*COMMAND, "run", "--config", str(folder / "bellwether.toml")]
        process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=log, stderr=log)
        try:
            yield Run(link, process, address)
        except BaseException:
            sys.stderr.write((folder / "log").read_text()[-4000:])
            raise
        finally:
            process.terminate()
            process.wait(30)
            lease.release()


def measure(run: Run, seconds: float) -> Iterator[str]:
    requests, sizes, described = run.counted()
    cpu, began, oldest_s, most_mb = cpu_s(run.pid), time.monotonic(), 0.0, 0.0
    while time.monotonic() < began + seconds:
        time.sleep(REFRESH_S)
        seen = run.seen_at()
        oldest_s = max(oldest_s, time.time() - min(seen.values()))
        most_mb = max(most_mb, resident_mb(run.pid))
    took = time.monotonic() - began
    used_s = cpu_s(run.pid) - cpu
    yield f"oldest look {oldest_s:.1f} s, {used_s / took:.1%} of a core, {most_mb:.0f} MB resident at most"
    after, sizes_after, described_after = run.counted()
    refreshes = described_after - described
    # On a machine that has no time for the run this still says what looks cost.
    yield f"{refreshes} looks; {1e3 * used_s / max(1, refreshes):.2f} ms of a core for each, reading metrics included"
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
                done = subprocess.run(
                    [*COMMAND, *arguments],
                    cwd=ROOT,
                    env=clean_environment(),
                    capture_output=True,
                    check=True,
                    timeout=60,
                )
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
    parser = argparse.ArgumentParser(prog="python -m tests.measure.observed_fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=100, help="of each group")
    parser.add_argument("--members", type=int, default=4, help="of each group")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--list", type=int, default=0, metavar="TIMES", help="time `bellwether groups` instead")
    options = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    if sys.platform != "linux":
        console.print("Reads /proc, so it runs on Linux only.")
        return 2
    size = Size(options.groups, options.partitions, options.members)
    console.print(
        f"{size.groups} groups, {size.groups * size.partitions:,} partitions, {size.members} members in each group,"
        f" {options.seconds:.0f} s"
    )
    if options.list:
        for line in list_groups(size, options.list):
            console.print(line)
        return 0
    with tempfile.TemporaryDirectory(prefix="bellwether-fleet-") as folder, running(size, Path(folder)) as run:
        began = time.monotonic()
        run.wait_until_seen(size.groups)
        console.print(f"every group has been seen {time.monotonic() - began:.1f} s after the start")
        for line in measure(run, options.seconds):
            console.print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
