"""How long a broker's assignor takes: `python -m tests.lab.broker_assignor [--calls 1000] [--deadline-ms 20]`.

A JVM calls the jar as a broker does, a member leaves or joins before each call, and a Bellwether in its own process
answers. Then it is killed, stopped and let go on: how long a call takes meanwhile, and when plans come again. With
`--tasks` it is the assignor of tasks, while plans come.
"""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from tests.interop.support.assignors.assignor import SIZE_LARGE, SIZE_SMALL, Called, Harness, TaskHarness, served_apart

SIZES = (SIZE_SMALL, SIZE_LARGE, (1_000, 10_000))
TASK_SIZES = ((6, 24), (24, 400), (100, 2_000))
WARM_CALLS, FAULT_CALLS = 50, 100


def line(what: str, called: Called) -> str:
    share = called.served / called.calls
    p50, p99, worst = (micros / 1e3 for micros in (called.p50_micros, called.p99_micros, called.worst_micros))
    times = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, worst {worst:.1f} ms"
    moved = f"moved by fallback {called.moved_by_fallback}, invalid {called.faults}"
    return f"{what}: {times}, plans {share:.1%}, {moved}, crossing {called.crossing}"


def of_tasks(calls: int) -> None:
    """With the default deadline. `crossing` counts standbys in the rack of their active task."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sock"
        with served_apart(path), TaskHarness(f"unix:{path}") as harness:
            harness.until_served(TASK_SIZES[0])
            for size in TASK_SIZES:
                harness.call(size, WARM_CALLS)
                print(
                    line(f"{size[0]} processes of two threads, {size[1]} tasks", harness.call(size, calls)), flush=True
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--deadline-ms", type=int, default=20)
    parser.add_argument("--tasks", action="store_true")
    options = parser.parse_args()
    if options.tasks:
        of_tasks(options.calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sock"
        with Harness(f"unix:{path}", deadline_ms=options.deadline_ms) as harness:
            with served_apart(path) as process:
                harness.until_served(SIZE_SMALL)
                for size in SIZES:
                    harness.call(size, WARM_CALLS)  # the JVM has not compiled it yet
                    calls = options.calls if size != SIZES[-1] else options.calls // 10
                    print(line(f"{size[0]} members, {size[1]} partitions", harness.call(size, calls)), flush=True)
                process.send_signal(signal.SIGSTOP)
                print(line("stopped", harness.call(SIZE_SMALL, FAULT_CALLS)), flush=True)
                began = time.monotonic()
                process.send_signal(signal.SIGCONT)
                harness.until_served(SIZE_SMALL)
                print(f"used again {time.monotonic() - began:.2f} s after it went on", flush=True)
                process.kill()
                process.wait(20)
                print(line("killed", harness.call(SIZE_SMALL, FAULT_CALLS)), flush=True)
            with served_apart(path):
                began = time.monotonic()
                harness.until_served(SIZE_SMALL)
                print(f"used again {time.monotonic() - began:.2f} s after a new process listened", flush=True)


if __name__ == "__main__":
    main()
