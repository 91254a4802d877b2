"""Do memory, open files and threads stay flat? A straight line through what was sampled, and a limit for its slope.

Pure but for `sampled`, which asks Linux.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.interop.support.bellwether import resident_mb

SAMPLE_INTERVAL_S = 10.0
WARM_UP_PART, WARM_UP_S_MAX = 0.15, 600.0
JUDGED_FROM_S = 1_500.0  # a shorter line says more about starting than about staying flat
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process had: seconds since the run began, MiB, counts."""

    at_s: float
    resident_mb: float
    open_files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A field of `Sample`, and by how much it may grow in an hour beyond the noise."""

    name: str
    words: str
    per_hour_max: float


LIMITS = (
    Limit("resident_mb", "resident memory, MiB", 2.0),
    Limit("open_files", "open files", 1.0),
    Limit("threads", "threads", 1.0),
)


@dataclass(frozen=True, slots=True)
class Slope:
    """A fitted line: `noise_per_hour` is two standard errors of its slope. `judged` is False where it is too short."""

    words: str
    first: float
    last: float
    most: float
    per_hour: float
    noise_per_hour: float
    per_hour_max: float
    judged: bool

    @property
    def flat(self) -> bool:
        return not self.judged or self.per_hour - self.noise_per_hour <= self.per_hour_max


def sampled(pid: int, at_s: float) -> Sample:
    """Raises OSError or RuntimeError where the process is gone."""
    folder = Path(f"/proc/{pid}")
    threads = sum(1 for _ in (folder / "task").iterdir())
    return Sample(at_s, resident_mb(pid), sum(1 for _ in (folder / "fd").iterdir()), threads)


def warm_up_s(run_s: float) -> float:
    """What is left out at the beginning: 15 % of the run, at most ten minutes."""
    return min(WARM_UP_PART * run_s, WARM_UP_S_MAX)


def slopes(samples: Sequence[Sample], run_s: float) -> list[Slope]:
    """Of one life of a process; none where it was too short for a line with an error."""
    kept = [sample for sample in samples if sample.at_s >= warm_up_s(run_s)]
    if len(kept) < 5:
        return []
    hours = np.array([sample.at_s for sample in kept]) / 3_600
    judged = kept[-1].at_s - kept[0].at_s >= JUDGED_FROM_S
    fitted = []
    for limit in LIMITS:
        values = np.array([float(getattr(sample, limit.name)) for sample in kept])
        line, covariance = np.polyfit(hours, values, 1, cov=True)
        noise = STANDARD_ERRORS * float(np.sqrt(covariance[0, 0]))
        ends = float(values[0]), float(values[-1]), float(values.max())
        fitted.append(Slope(limit.words, *ends, float(line[0]), noise, limit.per_hour_max, judged))
    return fitted
