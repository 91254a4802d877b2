"""Runs the peers on a scenario, each in a process of its own, warmed: the JVM's assignors and franz-go's."""

import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop.support.golang import go_members
from tests.interop.support.jvm import java
from tests.lab.bench.outcome import LEAST_RUNS, LEAST_WARM_RUNS, MOST_RUNS, Outcome, Phases
from tests.lab.bench.scenario import Scenario

# A peer that has not finished its least runs by then is not done; Bellwether needs seconds for all of them at any size.
TIMEOUT_S = 180
# With less, Java's million rows spend their time in garbage collection, which is not what is compared.
LARGE_PARTITIONS, LARGE_HEAP = 500_000, ("-Xms10g", "-Xmx10g")
# A run of many seconds needs no second warm one.
LARGE_RUNS = (1, 3)
HEAP = ("-Xms2g", "-Xmx5g")


def run_jvm(
    scenario: Scenario, *, warm_s: float, measure_s: float, once: bool = False, uniform: bool = False
) -> Outcome:
    """Measures Java's leader on the scenario's bytes; `once`: runs it cold, for its answer only.

    `uniform`: the broker's uniform assignor instead, and only its assigning.
    """
    heap = LARGE_HEAP if scenario.shape.partitions >= LARGE_PARTITIONS else HEAP

    def command(*arguments: str) -> list[str]:
        return java().command("bellwether.BenchMain", *arguments, *["uniform"] * uniform, options=heap)

    return run_peer(command, scenario, (warm_s, measure_s), (0, 1) if once else _least_runs(scenario))


def run_franz(scenario: Scenario, *, warm_s: float, measure_s: float) -> Outcome:
    """Measures franz-go's leader on the scenario's bytes. It knows no racks under the sticky protocols."""
    program = str(go_members())
    return run_peer(
        lambda *arguments: [program, "bench", *arguments],
        scenario,
        (warm_s, measure_s),
        _least_runs(scenario),
    )


def _least_runs(scenario: Scenario) -> tuple[int, int]:
    return LARGE_RUNS if scenario.shape.partitions >= LARGE_PARTITIONS else (LEAST_WARM_RUNS, LEAST_RUNS)


def run_peer(
    command: Callable[..., list[str]], scenario: Scenario, seconds: tuple[float, float], runs: tuple[int, int]
) -> Outcome:
    """Runs another leader in a process of its own; `seconds` and least `runs` of warming and of measuring."""
    with TemporaryDirectory(prefix="bellwether-bench-") as name:
        source, answer = Path(name) / "scenario", Path(name) / "assignments"
        scenario.write(source)
        line = command(*map(str, (source, answer, *seconds, *runs, MOST_RUNS)))
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{line[0]} failed on {scenario.shape}:\n{done.stderr[-2000:]}")
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
