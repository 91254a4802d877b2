"""Runs the queries of `pipeline run` until SIGTERM, reports their progress, and stops them within a bounded time.

Spark waits for the end of a batch before a query stops, and a batch may wait minutes for brokers. So stopping has a
limit after which Spark's JVM is killed. That loses nothing, because the next start repeats an interrupted batch.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from bellwether_kafka.coordinator.names import without_secrets
from bellwether_kafka.pipeline.jobs import progress

PROGRESS_S = 10.0
POLL_S = 0.5
PRUNE_S = 6 * 3600.0
EXIT_FAILED = 1
DEATH_S = 10.0


def follow(
    spark: SparkSession, queries: Sequence[StreamingQuery], stop_s: float, prune: Callable[[], object] = lambda: None
) -> int:
    """Runs until SIGTERM, SIGINT or the end of all queries. Returns the exit code. `prune` removes what is too old; it
    is called at the start and every few hours.

    If Spark does not stop within `stop_s`, the process exits from within this function.
    """
    logging.disable(logging.ERROR)  # py4j logs stack traces about a JVM that has ended; no job logs here
    jvm = spark.sparkContext._gateway.proc  # noqa: SLF001 - the only way to it; None under spark-submit
    stopping: list[int] = []

    def stop(number: int, _: object) -> None:
        if not stopping:
            _end_within(stop_s, jvm, 0)
        stopping.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        failed = _until(queries, stopping, prune)
        if failed is not None:
            _log(f"The job {failed.name} ended: {failed.exception()}")
        if not stopping:
            _end_within(stop_s, jvm, 0 if failed is None else EXIT_FAILED)
        with ThreadPoolExecutor(len(queries)) as pool:
            list(pool.map(lambda query: query.stop(), queries))
        spark.stop()
    except (Py4JError, OSError) as error:
        if not _died(jvm):
            raise
        _log(f"Spark's JVM ended ({type(error).__name__}); start the jobs again, they go on where they were.")
        return EXIT_FAILED
    return 0 if failed is None else EXIT_FAILED


def _died(jvm: Any) -> bool:
    """Returns whether Spark's JVM has ended; its connections may close a moment before it does."""
    if jvm is None:
        return False
    try:
        jvm.wait(DEATH_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _until(
    queries: Sequence[StreamingQuery], stopping: Sequence[int], prune: Callable[[], object]
) -> StreamingQuery | None:
    """Waits. Returns the query that failed, if one did."""
    _log_progress(queries)  # shows at once that the jobs run
    reported_at = pruned_at = time.monotonic()
    _pruned(prune)
    while not stopping and any(query.isActive for query in queries):
        time.sleep(POLL_S)
        failed = next((q for q in queries if not q.isActive and q.exception() is not None), None)
        if failed is not None:
            return failed
        if time.monotonic() - reported_at >= PROGRESS_S:
            reported_at = time.monotonic()
            _log_progress(queries)
        if time.monotonic() - pruned_at >= PRUNE_S:
            pruned_at = time.monotonic()
            _pruned(prune)
    _log_progress(queries)
    return None


def _pruned(prune: Callable[[], object]) -> None:
    """Removes what is too old. That it cannot be removed ends no job; that Spark's JVM has ended shows elsewhere."""
    try:
        prune()
    except (Py4JError, PySparkException, OSError) as error:
        why = str(error).partition("\n")[0]
        hours = f"{PRUNE_S / 3600:.0f} hours"
        _log(f"What is too old in the tables was not all removed ({why}); it is tried again in {hours}.")


def _end_within(limit_s: float, jvm: Any, code: int) -> None:
    """Starts a timer that ends the process after `limit_s`, even if it still waits for Spark."""

    def end() -> None:
        late = f"Spark did not stop within {limit_s:.0f} s"
        _log(f"{late} and is killed; its last batch is done again at the next start.")
        if jvm is not None:
            jvm.kill()
        sys.stdout.flush()
        os._exit(code)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()


def _log(sentence: str) -> None:
    sys.stderr.write(f"{without_secrets(sentence)}\n")
    sys.stderr.flush()


def _log_progress(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        sys.stdout.write(json.dumps(progress(query)) + "\n")
    sys.stdout.flush()
