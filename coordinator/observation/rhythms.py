"""Keeps the commit intervals of groups that commit rarely over restarts of Bellwether.

Without them, a group that commits every hour would be judged stalled after each restart until its next commit. The
intervals are in a small file, whose loss has no other effect.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from bellwether_kafka.bounded import json_of, read_file
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.control import write_state
from bellwether_kafka.coordinator.observation.lag import is_seldom
from bellwether_kafka.coordinator.observation.offset_history import AGE_MS_MAX, WAITS_KEPT, OffsetHistory
from bellwether_kafka.coordinator.watching import Troubles, every

WRITTEN_S = 60.0
KEPT_FOLDER = "set XDG_STATE_HOME to a folder that is kept"
KEPT_MS = 30 * 86_400_000  # since the last change, so that deleted groups are removed eventually
BYTES_MAX = 1_000_000  # some thousand groups

log = structlog.get_logger(__name__)

Waits = tuple[int, ...]


class Rhythms:
    """The commit intervals of all groups of a process, to be used in its event loop. Without a `path` they are not
    written. `clock` is in epoch seconds. The service must run `beside`."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = clocks.wall) -> None:
        self._path = path
        self._clock = clock
        self._waits: dict[str, Waits] = {group: waits for group, (waits, _) in self._read().items()}
        self._changed: set[str] = set()
        self._troubles = Troubles()

    def of(self, group: str) -> Waits:
        """Returns the `waits_ms` of the group's last commits, empty if it commits often."""
        return self._waits.get(group, ())

    def learned(self, group: str, history: OffsetHistory) -> None:
        """Takes the commit intervals from the history of a group."""
        waits = history.waits_ms if is_seldom(history) else ()
        if waits != self.of(group):
            self._waits[group] = waits
            self._changed.add(group)

    async def beside(self, *_: object) -> None:
        """Writes changes once a minute, until cancelled."""
        await every(WRITTEN_S, self.write, log, "rhythms_not_written")

    async def write(self) -> None:
        """Writes changes. If that fails they are lost at a restart; each new error is logged once."""
        if self._path is None or not self._changed:
            return
        changed, self._changed = {group: self._waits[group] for group in self._changed}, set()
        try:
            await asyncio.to_thread(self._write, self._path, changed)
            self._troubles.over()
        except OSError as error:
            self._troubles.report(log.warning, "rhythms_not_kept", str(error), remedy=KEPT_FOLDER)

    def _write(self, path: Path, changed: Mapping[str, Waits]) -> None:
        """Merges the changes into the file, which may have other groups of other processes."""
        at_ms = int(self._clock() * 1000)
        kept = {**self._read(), **{group: (waits, at_ms) for group, waits in changed.items()}}
        text = json.dumps({group: {"waits_ms": w, "at_ms": at} for group, (w, at) in kept.items() if w})
        write_state(path, text)

    def _read(self) -> dict[str, tuple[Waits, int]]:
        """Returns the intervals by group, with the time of their last change; empty if the file cannot be read."""
        if self._path is None:
            return {}
        with suppress(OSError, ValueError, AttributeError):
            oldest_ms = self._clock() * 1000 - KEPT_MS
            entries = {group: _entry(value) for group, value in json_of(read_file(self._path, BYTES_MAX)).items()}
            return {group: entry for group, entry in entries.items() if entry[0] and entry[1] >= oldest_ms}
        return {}


def _entry(value: Any) -> tuple[Waits, int]:
    """Returns an entry of the file, empty if Bellwether cannot have written it. Raises AttributeError if it is not an
    object."""
    waits, at_ms = value.get("waits_ms"), value.get("at_ms")
    whole = isinstance(waits, list) and all(type(wait) is int and 0 <= wait <= AGE_MS_MAX for wait in waits)
    return (tuple(waits[-WAITS_KEPT:]), at_ms) if whole and type(at_ms) is int else ((), 0)
