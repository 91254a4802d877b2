"""Thousands of spoilt inputs for every decoder, the same ones each time; `make fuzz` makes millions."""

import random
import time
import tracemalloc

import pytest

from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, targets

EXECUTIONS = 2_000
MEASURED = 200
INPUT_LIMIT_S = 5.0
BYTES_PER_BYTE_MAX = 2_000  # what a decoder may take for each byte that it is given
BYTES_BASE = 400_000

pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # regular expressions of a topology file
NAMED = [pytest.param(target, id=name) for name, target in targets().items()]


@pytest.mark.parametrize("target", NAMED)
def test_honest_bytes_are_read(target: Target) -> None:
    assert target.seeds
    assert all(target.feed(seed) for seed in target.seeds)


@pytest.mark.parametrize("target", NAMED)
def test_spoilt_bytes_are_read_or_refused(target: Target) -> None:
    draw = random.Random(target.name)
    slowest_s = 0.0
    for _ in range(EXECUTIONS):
        data = mutate(draw, draw.choice(target.seeds), target.seeds)
        began = time.thread_time()
        try:
            target.feed(data)
        except Exception as error:
            raise AssertionError(f"{target.name}: {error!r} for {data.hex()}") from error
        slowest_s = max(slowest_s, time.thread_time() - began)
    assert slowest_s < INPUT_LIMIT_S


@pytest.mark.parametrize("target", NAMED)
def test_no_input_takes_memory_out_of_proportion(target: Target) -> None:
    draw = random.Random(target.name + " memory")
    inputs = [mutate(draw, draw.choice(target.seeds), target.seeds) for _ in range(MEASURED)]
    target.feed(target.seeds[0])
    tracemalloc.start()
    try:
        for data in inputs:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            target.feed(data)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < BYTES_BASE + BYTES_PER_BYTE_MAX * len(data), data.hex()
    finally:
        tracemalloc.stop()
