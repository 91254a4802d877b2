"""`make prove-compose`: image, chart and compositions run for real, and what each failure costs. Base images are pulled
or made, the Dockerfiles built as they stand. Where no engine can be had it says why and ends with 0."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.containers.composition import SERVED, Composition, composition, with_images
from tests.deploy.containers.engine import HOME, EngineError, MissingEngineError
from tests.deploy.containers.examples import EXAMPLES
from tests.deploy.containers.failures import prove_failures
from tests.deploy.containers.image import prove_image
from tests.deploy.containers.pipeline import prove_pipeline
from tests.deploy.containers.play import prove_play

SMOKE_LIMIT_S = 300.0


@contextmanager
def step(name: str) -> Iterator[None]:
    """Says how long it took."""
    began = time.monotonic()
    sys.stdout.write(f"{name} ...\n")
    sys.stdout.flush()
    yield
    sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    sys.stdout.flush()


def composed(made: Composition) -> int:
    """Everything up, and the smoke script."""
    with step("up"):
        made.up()
    smoked = made.smoke(SMOKE_LIMIT_S)
    sys.stdout.write(smoked.stdout + smoked.stderr)
    return smoked.returncode


PARTS = {
    "image": lambda made: prove_image(made.engine),
    "play": lambda made: prove_play(made, EXAMPLES),
    "compose": composed,
    "failures": prove_failures,  # of what compose has started
    "pipeline": prove_pipeline,  # over the events of all that
}
BESIDE_BROKERS = "served"  # the other composition, once this one is down


def prove(made: Composition, parts: Sequence[str]) -> int:
    """0 if all of them hold. A part that fails does not end the others."""
    with step("images"):
        for name, origin in with_images(made).items():
            sys.stdout.write(f"  {origin:8} {name}\n")
    failed = []
    for part in parts:
        with step(part):
            try:
                outcome = PARTS[part](made)
            except EngineError as error:
                sys.stdout.write(f"{error}\n")
                outcome = 1
        if outcome != 0:
            failed.append(part)
    sys.stdout.write(f"FAILED: {', '.join(failed)}\n" if failed else "all of it held\n")
    return 1 if failed else 0


def proved(home: Path, parts: Sequence[str]) -> int:
    outcomes = [0]
    if first := [part for part in parts if part != BESIDE_BROKERS]:
        with composition(home) as made:
            outcomes.append(prove(made, first))
    if BESIDE_BROKERS in parts:
        with composition(home, SERVED) as made:
            outcomes.append(prove(made, ["compose"]))
    return max(outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=["compose"], help=f"in this order: {', '.join([*PARTS, BESIDE_BROKERS])}"
    )
    parser.add_argument("--home", type=Path, default=HOME, help="where the engine keeps its files")
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in (*PARTS, BESIDE_BROKERS)]:
        parser.error(f"there is no part {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is torn down
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    try:
        return proved(asked.home, asked.parts)
    except EngineError as error:
        sys.stdout.write(f"FAILED: {error}\n")
        return 1
    except MissingEngineError as missing:
        sys.stdout.write(f"SKIPPED: {missing}\n")
        return 0


if __name__ == "__main__":
    sys.exit(main())
