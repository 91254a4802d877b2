"""`make demo-pipeline`: brokers in three racks, members, a skewed load that shifts, Bellwether, the Spark jobs, and
weights flowing back; imbalance and bytes across racks before and after.
"""

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import RACKS, create_local_topic
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.lab.demo_pipeline.load import Load, Meter, skewed
from tests.paths import ROOT

TOPIC, GROUP, EVENTS, WEIGHTS = "clicks", "readers", "demo-events", "demo-weights"
PARTITIONS, MEMBERS = 24, 6
EVERY_S = 4.0
BEFORE_S, LIMIT_S, SHIFT_S, AFTER_S = 20.0, 300.0, 240.0, 20.0
STOP_S = 60.0
EVEN = 1.1
JOBS_LOG = "jobs.log"

echo = partial(print, flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="demo-pipeline-") as output, KafkaCluster() as kafka:
        create_local_topic(kafka, TOPIC, PARTITIONS)
        options = {"policy": "load-aware", "mode": "lead"}
        events = {"topic": EVENTS, "sample_interval_ms": 1_000}
        with (
            Bellwether(kafka, [GROUP], options=options, events=events, weights={"topic": WEIGHTS}) as lead,
            Flock(kafka.bootstrap) as flock,
            Load(kafka.client_config("admin", "admin"), TOPIC, skewed(PARTITIONS)) as load,
        ):
            members = [
                flock.member("confluent", GROUP, (TOPIC,), ("cooperative-sticky",), rack=RACKS[i // 2])
                for i in range(MEMBERS)
            ]
            wait_settled(members, partitions_of({TOPIC: PARTITIONS}))
            meter = Meter(load, TOPIC, members, RACKS)
            time.sleep(1)
            echo("Every member has as many partitions as the others; what they weigh is not known yet.")
            follow(meter, BEFORE_S)
            before = mean(meter, BEFORE_S)
            jobs = start_jobs(kafka, Path(output))
            try:
                echo("The Spark jobs start; their weights go back through a topic.")
                first = until_even(meter, jobs, LIMIT_S)
                after = mean(meter, AFTER_S)
                moved = moves(lead)
                load.rates = skewed(PARTITIONS, shift=1)
                echo("The load moves to other partitions.")
                second = until_even(meter, jobs, SHIFT_S)
                last = mean(meter, AFTER_S)
                total = moves(lead)
            finally:
                if jobs.poll() is not None:
                    echo(f"The jobs ended by themselves with {jobs.returncode}:")
                    echo((Path(output) / JOBS_LOG).read_text()[-3000:])
                end(jobs)
    echo(
        f"Fullest member over the mean: {before[0]:.2f} by counts, {after[0]:.2f} by load,"
        f" {last[0]:.2f} after the shift."
    )
    echo(f"Across racks: {before[1] / 1e3:.0f} kB/s before, {after[1] / 1e3:.0f} kB/s after.")
    echo(f"Partitions moved: {moved}, then {total - moved} after the shift.")
    figures = {"before": before, "after": after, "last": last, "moved": moved, "moved_after_shift": total - moved}
    echo(json.dumps(figures))
    if not (first and second):
        echo(f"NOT EVEN: the load was not below {EVEN} within {LIMIT_S:.0f} s and, after the shift, {SHIFT_S:.0f} s.")
    return 0 if first and second else 1


def start_jobs(kafka: KafkaCluster, output: Path) -> "subprocess.Popen[str]":
    words = ["run", "--bootstrap", kafka.bootstrap, "--topic", EVENTS, "--weights-topic", WEIGHTS]
    words += ["--output", str(output), "--master", "local[2]", "--jobs", "weights", "--interval", "2 seconds"]
    words += ["--watermark", "3 seconds", "--rate-window", "10 seconds"]
    return subprocess.Popen(
        [sys.executable, "-m", "bellwether_kafka.pipeline", *words],
        cwd=ROOT,
        text=True,
        stdout=(output / JOBS_LOG).open("w"),
        stderr=subprocess.STDOUT,
    )


def end(jobs: "subprocess.Popen[str]") -> None:
    """SIGTERM; the jobs bound the time that they take to stop."""
    jobs.terminate()
    jobs.wait(STOP_S)


def follow(meter: Meter, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(EVERY_S)
        point = meter.measure()
        echo(f"{point.at_s:5.0f} s  fullest/mean {point.imbalance:.2f}  across racks {point.crossing / 1e3:6.1f} kB/s")


def until_even(meter: Meter, jobs: "subprocess.Popen[str]", limit_s: float) -> bool:
    """Until the members' load is even and has stayed so; whether that came in time and the jobs still run."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and jobs.poll() is None:
        follow(meter, EVERY_S)
        if mean(meter, 3 * EVERY_S)[0] < EVEN:
            follow(meter, AFTER_S)
            return True
    return False


def mean(meter: Meter, seconds: float) -> tuple[float, float]:
    """Mean imbalance and crossing of the last seconds."""
    last = [p for p in meter.points if p.at_s > meter.points[-1].at_s - seconds]
    return sum(p.imbalance for p in last) / len(last), sum(p.crossing for p in last) / len(last)


def moves(lead: Bellwether) -> int:
    """Partitions that the leader moved between members after the first plan for all of them."""
    rebalances = [entry for entry in lead.log("decision", group=GROUP) if entry["members"] == MEMBERS]
    return sum(entry["moved"] for entry in rebalances[1:])


if __name__ == "__main__":
    raise SystemExit(main())
