"""Executions by the million: mutations by structure in one process, without the cost of measuring coverage.

Chunk n of a decoder is drawn from its name and n, so that a run goes on where the last one ended and a failure is found
again. How many executions there have been is kept beside the corpora that `make fuzz` has found, which are seeds here.
"""

import json
import random
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tests.fuzz.mutate import SIZE_MAX, mutate

if TYPE_CHECKING:
    # What follows branches must import the decoders first, to instrument them.
    from tests.fuzz.targets import Target

CHUNK = 20_000
BATCH = 32  # inputs of one call, for decoders that read the bytes of many members at once
CHUNK_CPU_MAX_S = 600.0
INPUT_CPU_MAX_S = 5.0
MEMORY_MAX_BYTES = 2 << 30  # of the whole process, libraries included


@dataclass
class Record:
    """What one decoder has been through, over all runs. `slowest_s` is CPU time of one call."""

    executions: int = 0
    chunks: int = 0
    read: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    rss_mb: int = 0
    guided: int = 0  # executions under libFuzzer, which are not among the others


class Book:
    """The records of all decoders in one file, written after every chunk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records = self._read()

    def of(self, name: str) -> Record:
        return self.records.setdefault(name, Record())

    def _read(self) -> dict[str, Record]:
        kept = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
        return {name: Record(**fields) for name, fields in kept.items()}

    def save(self, name: str) -> None:
        """The record of one decoder; those of others may have been carried on with by another process meanwhile."""
        self.records = self._read() | {name: self.of(name)}
        fresh = self._path.with_suffix(".new")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({n: asdict(r) for n, r in self.records.items()}, indent=1), encoding="utf-8")
        fresh.replace(self._path)


class TooSlowError(Exception):
    """An input, or a chunk, has taken more CPU time than it may."""


def bounded() -> None:
    """From here on this process cannot take more memory, and a decoder that never ends is interrupted."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError(f"a chunk has taken {CHUNK_CPU_MAX_S:.0f} s of CPU time")

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    signal.signal(signal.SIGVTALRM, late)


def chunk(target: "Target", number: int, corpus: Sequence[bytes], record: Record) -> None:
    """CHUNK inputs. Raises AssertionError with the input that broke its decoder."""
    draw = random.Random(f"{target.name} {number}")
    seeds = (*target.seeds, *corpus)
    signal.setitimer(signal.ITIMER_VIRTUAL, CHUNK_CPU_MAX_S)
    began = time.thread_time()
    size = BATCH if target.many is not None else 1
    for _ in range(0, CHUNK, size):
        inputs = [mutate(draw, draw.choice(seeds), seeds) for _ in range(size)]
        call_began = time.thread_time()
        try:
            record.read += _feed(target, inputs)
        except Exception as error:
            reported = ", ".join(data.hex() for data in inputs)
            raise AssertionError(f"{target.name}, chunk {number}: {error!r} for {reported}") from error
        took_s = time.thread_time() - call_began
        record.slowest_s = max(record.slowest_s, took_s)
        if took_s > INPUT_CPU_MAX_S:
            raise AssertionError(f"{target.name}, chunk {number}: {took_s:.1f} s for {[d.hex() for d in inputs]}")
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    record.cpu_s += time.thread_time() - began
    record.executions += CHUNK
    record.chunks += 1
    record.rss_mb = max(record.rss_mb, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def _feed(target: "Target", inputs: Sequence[bytes]) -> int:
    """How many were read."""
    if target.many is not None:
        return target.many(inputs)
    return target.feed(inputs[0])


def loop(target: "Target", corpus: Path, executions: int, limit_s: float, book: Book) -> None:
    """On to `executions` in all, for at most so long by the wall; asked for more than that it does nothing."""
    paths = sorted(path for path in corpus.glob("*") if path.stat().st_size <= SIZE_MAX) if corpus.is_dir() else []
    inputs = [path.read_bytes() for path in paths]
    record = book.of(target.name)
    ends_at = time.monotonic() + limit_s
    while record.executions < executions and time.monotonic() < ends_at:
        chunk(target, record.chunks, inputs, record)
        book.save(target.name)
