"""Daemon threads for calls that may hang. Unlike those of concurrent.futures they do not keep the process alive."""

import queue
import threading
from collections.abc import Callable

IDLE_S = 30.0


class DaemonThreads:
    """Runs jobs in order, at most `most` at a time. A job must not raise. `add` is thread-safe."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0

    def add(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._unfinished += 1
            another = self._threads < min(self._unfinished, self._most)
            self._threads += another
        self._jobs.put(job)
        if another:
            threading.Thread(target=self._work, name=f"bellwether-{self._name}", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._unfinished >= self._threads:
                        continue  # a job has been added for this thread
                    self._threads -= 1
                return
            try:
                job()
            finally:
                with self._lock:
                    self._unfinished -= 1
