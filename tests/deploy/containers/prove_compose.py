"""`make prove-compose`: the composition run for real. Base images, the Dockerfiles, every service, the smoke script,
and, with --failures, what each failure costs. Where no engine can be had it says why and ends with 0."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.containers.composition import Composition, composition, with_images
from tests.deploy.containers.engine import HOME, EngineError, MissingEngineError
from tests.deploy.containers.failures import prove_failures
from tests.deploy.containers.image import prove_image
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


def prove(made: Composition, *, image: bool, play: bool, failures: bool) -> int:
    """0 if all holds."""
    with step("images"):
        for name, origin in with_images(made).items():
            sys.stdout.write(f"  {origin:8} {name}\n")
    with step("up"):
        made.up()
    with step("smoke"):
        smoked = made.smoke(SMOKE_LIMIT_S)
        sys.stdout.write(smoked.stdout + smoked.stderr)
    if smoked.returncode != 0:
        return smoked.returncode
    failed = 0
    if image:
        with step("image"):
            failed += prove_image(made.engine)
    if play:
        with step("play"):
            failed += prove_play(made)
    if failures:
        with step("failures"):
            failed += prove_failures(made)
    return min(failed, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", action="store_true", help="also look into the image")
    parser.add_argument("--play", action="store_true", help="also run each shape of the chart by podman kube play")
    parser.add_argument("--failures", action="store_true", help="also kill, pause, stop, starve and cut off everything")
    parser.add_argument("--home", type=Path, default=HOME, help="where the engine keeps its files")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is torn down
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    try:
        with composition(asked.home) as made:
            try:
                return prove(made, image=asked.image, play=asked.play, failures=asked.failures)
            except EngineError as error:
                sys.stdout.write(f"FAILED: {error}\n{made.run('ps', '--all')}\n")
                return 1
    except MissingEngineError as missing:
        sys.stdout.write(f"SKIPPED: {missing}\n")
        return 0


if __name__ == "__main__":
    sys.exit(main())
