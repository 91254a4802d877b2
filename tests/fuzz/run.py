"""`make fuzz`: coverage-guided fuzzing of every decoder by atheris (libFuzzer), beginning with bytes of Java's classes.

Each decoder has a process of its own that ends at an undocumented error, after 30 s in one input or beyond 512 MB. The
corpus of a decoder lives in .cache/fuzz and is carried on with. A table is printed, and kept as JSON with --json.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2] / ".cache" / "fuzz"
SIZE_MAX = 4_096
INPUT_LIMIT_S = 30  # by the wall, on a machine that may be busy
MEMORY_MAX_MB = 512
OWN_SHARE = 2  # every second mutation is ours, by structure; the others are libFuzzer's


def fuzz_here(name: str, executions: int, limit_s: int) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["protocol", "assignors", "coordinator", "pipeline"]):
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
    run = subprocess.run(command, capture_output=True, text=True, cwd=HOME.parents[1], check=False)
    told = run.stderr
    done = _figure(told, r"stat::number_of_executed_units:\s+(\d+)")
    ended = f"exit {run.returncode}" if run.returncode else "done" if done >= executions else "time was up"
    return {
        "decoder": name,
        "executions": done,
        "edges": _figure(told, r"cov: (\d+)"),
        "rss_mb": _figure(told, r"stat::peak_rss_mb:\s+(\d+)"),
        "slowest_s": _figure(told, r"stat::slowest_unit_time_sec:\s+(\d+)"),
        "seconds": round(time.monotonic() - began),
        "ended": ended,
        "error": "" if ended in ("done", "time was up") else told[-3_000:],
    }


def _figure(told: str, pattern: str) -> int:
    """The last one of its kind."""
    found = re.findall(pattern, told)
    return int(found[-1]) if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzzes the decoders.")
    parser.add_argument("--decoder", action="append", help="only this one; may be repeated")
    parser.add_argument("--executions", type=int, default=100_000, help="of each decoder")
    parser.add_argument("--limit-s", type=int, default=7_200, help="of each decoder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        fuzz_here(options.here, options.executions, options.limit_s)
    from tests.fuzz.targets import targets

    results = []
    for name in options.decoder or targets():
        results.append(result := fuzz(name, options.executions, options.limit_s))
        print(
            f"{name:<28} {result['executions']:>12,} executions {result['seconds']:>6} s "
            f"{result['edges']:>5} edges {result['rss_mb']:>5} MB  {result['ended']}",
            flush=True,
        )
        if result["error"]:
            print(result["error"], flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + os.linesep, encoding="utf-8")
    return 1 if any(result["error"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
