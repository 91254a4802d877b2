"""`make fuzz`: coverage-guided fuzzing of every decoder by atheris (libFuzzer), beginning with bytes of Java's classes;
then the loop of `tests.fuzz.loop`, many times cheaper, on to the executions that are asked for.

Each decoder has a process of its own that ends at an undocumented error, after 30 s in one input or beyond 512 MB (2 GB
in the loop). The corpus of a decoder and the count of its executions live in .cache/fuzz and are carried on with.
"""

import argparse
import logging
import random
import re
import subprocess
import sys
import time
from typing import Any

from tests.fuzz.loop import Book, Record, bounded, loop
from tests.fuzz.mutate import SIZE_MAX
from tests.paths import ROOT

HOME = ROOT / ".cache" / "fuzz"
RECORD = HOME / "executions.json"
INPUT_LIMIT_S = 30  # by the wall, on a machine that may be busy
MEMORY_MAX_MB = 512
OWN_SHARE = 2  # every second mutation is Bellwether's, by structure; the others are libFuzzer's


def fuzz_here(name: str, executions: int, limit_s: int) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["bellwether_kafka"]):
        from tests.fuzz.mutate import mutate
        from tests.fuzz.targets import targets
    target = targets()[name]
    corpus, crashes = HOME / name, HOME / "crashes"
    for directory in (corpus, crashes):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def mutated(data: bytes, size_max: int, seed: int) -> bytes:
        if seed % OWN_SHARE:
            return bytes(atheris.Mutate(data, size_max))
        return mutate(random.Random(seed), data, target.seeds)[:size_max]

    arguments = [
        f"-runs={executions}",
        f"-max_total_time={limit_s}",
        f"-max_len={SIZE_MAX}",
        f"-timeout={INPUT_LIMIT_S}",
        f"-rss_limit_mb={MEMORY_MAX_MB}",
        f"-artifact_prefix={crashes}/{name}-",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], lambda data: target.feed(bytes(data)), custom_mutator=mutated)
    atheris.Fuzz()


def fuzz(name: str, executions: int, limit_s: int) -> dict[str, Any]:
    """One decoder in a process of its own: what it came to."""
    began = time.monotonic()
    options = ["--executions", str(executions), "--limit-s", str(limit_s)]
    command = [sys.executable, "-m", "tests.fuzz.run", "--here", name, *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    reported = run.stderr
    done = _figure(reported, r"stat::number_of_executed_units:\s+(\d+)")
    ended = f"exit {run.returncode}" if run.returncode else "done" if done >= executions else "time was up"
    edges = _figure(reported, r"cov: (\d+)")
    if not run.returncode and not edges:
        ended = "nothing was instrumented, so no branch was followed"
    return {
        "decoder": name,
        "executions": done,
        "edges": edges,
        "rss_mb": _figure(reported, r"stat::peak_rss_mb:\s+(\d+)"),
        "slowest_s": _figure(reported, r"stat::slowest_unit_time_sec:\s+(\d+)"),
        "seconds": round(time.monotonic() - began),
        "ended": ended,
        "error": "" if ended in ("done", "time was up") else reported[-3_000:],
    }


def _figure(reported: str, pattern: str) -> int:
    """The last one of its kind."""
    figures = re.findall(pattern, reported)
    return int(figures[-1]) if figures else 0


def loop_here(name: str, executions: int, limit_s: int) -> None:
    """On to `executions` in all, in this process."""
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    from tests.fuzz.targets import targets

    bounded()
    loop(targets()[name], HOME / name, executions, limit_s, Book(RECORD))


def loop_apart(name: str, executions: int, limit_s: int) -> str:
    """In a process of its own; what went wrong, "" for nothing."""
    options = ["--executions", str(executions), "--limit-s", str(limit_s)]
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.run", "--loop-here", name, *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return (run.stdout + run.stderr)[-3_000:] if run.returncode else ""


def row(name: str, record: Record) -> str:
    micros = record.cpu_s / record.executions * 1e6 if record.executions else 0.0
    return (
        f"{name:<28} {record.executions:>12,} {record.guided:>12,} {micros:>8.1f} {record.read:>12,} "
        f"{record.slowest_s * 1000:>9.1f} {record.rss_mb:>6}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzzes the decoders.")
    parser.add_argument("--decoder", action="append", help="only this one; may be repeated")
    parser.add_argument("--guided", type=int, default=0, help="executions of each decoder under libFuzzer, anew")
    parser.add_argument(
        "--executions", type=int, default=100_000, help="of each decoder in the loop, all runs together"
    )
    parser.add_argument("--limit-s", type=int, default=7_200, help="of each decoder and way")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--loop-here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        fuzz_here(options.here, options.executions, options.limit_s)
    if options.loop_here:
        loop_here(options.loop_here, options.executions, options.limit_s)
        return 0
    from tests.fuzz.targets import targets

    failed = False
    print(f"{'decoder':<28} {'in the loop':>12} {'guided':>12} {'us each':>8} {'read':>12} {'worst ms':>9} {'MB':>6}")
    for name in options.decoder or targets():
        error = _guided(name, options.guided, options.limit_s) if options.guided else ""
        error += loop_apart(name, options.executions, options.limit_s)
        print(row(name, Book(RECORD).of(name)), flush=True)
        if error:
            failed = True
            print(error, flush=True)
    return 1 if failed else 0


def _guided(name: str, executions: int, limit_s: int) -> str:
    result = fuzz(name, executions, limit_s)
    book = Book(RECORD)
    book.of(name).guided += result["executions"]
    book.save(name)
    print(
        f"{name}: {result['edges']} edges, {result['rss_mb']} MB, {result['seconds']} s, {result['ended']}", flush=True
    )
    return str(result["error"])


if __name__ == "__main__":
    sys.exit(main())
