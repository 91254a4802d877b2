"""Runs the JVM's own assignors on a scenario, in a JVM of its own, warmed."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.outcome import LEAST_RUNS, LEAST_WARM_RUNS, MOST_RUNS, Outcome, Phases
from tests.bench.scenario import Scenario
from tests.interop.jvm import java

TIMEOUT_S = 1_800
# With less, Java's million rows spend their time in garbage collection, which is not what is compared.
LARGE_PARTITIONS, LARGE_HEAP = 500_000, ("-Xms10g", "-Xmx10g")
HEAP = ("-Xms2g", "-Xmx5g")


def run_jvm(scenario: Scenario, *, warm_s: float, measure_s: float, once: bool = False) -> Outcome:
    """Measures Java's leader on the scenario's bytes; `once`: runs it cold, for its answer only."""
    with TemporaryDirectory(prefix="bellwether-bench-") as name:
        source, answer = Path(name) / "scenario", Path(name) / "assignments"
        scenario.write(source)
        runs = (0, 1) if once else (LEAST_WARM_RUNS, LEAST_RUNS)
        arguments = (str(source), str(answer), str(warm_s), str(measure_s), *map(str, runs), str(MOST_RUNS))
        heap = LARGE_HEAP if scenario.shape.partitions >= LARGE_PARTITIONS else HEAP
        command = java().command("bellwether.BenchMain", *arguments, options=heap)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the JVM failed on {scenario.shape}:\n{done.stderr[-2000:]}")
        every = _phases(done.stdout.splitlines())
        return Outcome(every[0].total, every[1:] or every, _split(answer.read_bytes()))


def _phases(lines: Sequence[str]) -> tuple[Phases, ...]:
    return tuple(Phases(*(int(part) / 1e6 for part in line.split())) for line in lines)


def _split(data: bytes) -> tuple[bytes, ...]:
    blobs = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        blobs.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return tuple(blobs)
