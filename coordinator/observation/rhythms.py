"""How far apart the commits of groups are that commit seldom, kept over restarts of Bellwether.

A group that commits every hour would be stalled for most of an hour after each restart, until its next commit is seen.
What was learned is in a small file, of which a loss costs no more than that.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from bellwether_kafka.bounded import json_of, read_file
from bellwether_kafka.coordinator.control import write_state
from bellwether_kafka.coordinator.observation.lag import is_seldom
from bellwether_kafka.coordinator.observation.offset_history import AGE_MS_MAX, WAITS_KEPT, OffsetHistory

WRITTEN_S = 60.0
KEPT_MS = 30 * 86_400_000  # since it was learned last; a group that is gone is not kept for ever
BYTES_MAX = 1_000_000  # some thousand groups

log = structlog.get_logger(__name__)

Waits = tuple[int, ...]


class Rhythms:
    """Of all groups of a process, for its event loop. Without a `path` nothing outlasts the process; `clock` is in
    seconds, epoch. Give `beside` to the service."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._known: dict[str, Waits] = {group: waits for group, (waits, _) in self._read().items()}
        self._changed: set[str] = set()
        self._failed = ""

    def of(self, group: str) -> Waits:
        """How long the last commits were awaited, in milliseconds; nothing of a group that commits often."""
        return self._known.get(group, ())

    def learned(self, group: str, history: OffsetHistory) -> None:
        """Takes what the refreshes of a group have shown by now."""
        waits = history.waits_ms if is_seldom(history) else ()
        if waits != self.of(group):
            self._known[group] = waits
            self._changed.add(group)

    async def beside(self, *_: object) -> None:
        """Writes what is new once a minute, until cancelled."""
        while True:
            await asyncio.sleep(WRITTEN_S)
            await self.write()

    async def write(self) -> None:
        """Writes what is new. Where that fails a restart forgets it, which the log says once."""
        if self._path is None or not self._changed:
            return
        changed, self._changed = {group: self._known[group] for group in self._changed}, set()
        try:
            await asyncio.to_thread(self._write, self._path, changed)
            self._failed = ""
        except OSError as error:
            if str(error) != self._failed:
                log.warning("rhythms_not_kept", reason=str(error), remedy="set XDG_STATE_HOME to a folder that is kept")
            self._failed = str(error)

    def _write(self, path: Path, changed: Mapping[str, Waits]) -> None:
        """Beside those of other groups, which other processes may have kept."""
        at_ms = int(self._clock() * 1000)
        kept = {**self._read(), **{group: (waits, at_ms) for group, waits in changed.items()}}
        text = json.dumps({group: {"waits_ms": w, "at_ms": at} for group, (w, at) in kept.items() if w})
        write_state(path, text)

    def _read(self) -> dict[str, tuple[Waits, int]]:
        """By group, with when it was learned; nothing where there is no such file, or none that can be read."""
        if self._path is None:
            return {}
        with suppress(OSError, ValueError, AttributeError):
            oldest_ms = self._clock() * 1000 - KEPT_MS
            found = {group: _entry(value) for group, value in json_of(read_file(self._path, BYTES_MAX)).items()}
            return {group: entry for group, entry in found.items() if entry[0] and entry[1] >= oldest_ms}
        return {}


def _entry(value: Any) -> tuple[Waits, int]:
    """Nothing for what no Bellwether has written. Raises AttributeError for what has no fields."""
    waits, at_ms = value.get("waits_ms"), value.get("at_ms")
    whole = isinstance(waits, list) and all(type(wait) is int and 0 <= wait <= AGE_MS_MAX for wait in waits)
    return (tuple(waits[-WAITS_KEPT:]), at_ms) if whole and type(at_ms) is int else ((), 0)
