"""Reads the configuration file again when it has changed, or at SIGHUP, and applies the settings that can change."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from bellwether_kafka.assignors.shared import UnknownNameError
from bellwether_kafka.bounded import Stamp, stamp_of
from bellwether_kafka.coordinator.planning import ApplicationError
from bellwether_kafka.coordinator.settings import Settings, SettingsChange, SettingsError, change

INTERVAL_S = 10.0
REST_S = 1.0  # a file that has changed is read when it has rested this long: a program may still be writing it

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """`read` reads the file, the environment and the command line as at the start. It raises SettingsError."""

    path: Path
    read: Callable[[], Settings]


class Reload:
    """Watches the file. `settings` are those in force. `apply` puts others in force; if it raises an error of the
    settings it must have changed nothing. After an error the settings stay in force; it is logged once for each state
    of the file."""

    def __init__(
        self,
        settings: Settings,
        file: SettingsFile,
        apply: Callable[[Settings], None],
        *,
        stamp: Callable[[Path], Stamp] | None = None,
        interval_s: float = INTERVAL_S,
        rest_s: float = REST_S,
    ) -> None:
        self.settings = settings
        self._file = file
        self._apply = apply
        self._stamp = stamp or stamp_of
        self._interval_s = interval_s
        self._rest_s = rest_s
        self._seen = self._stamp(file.path)
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Requests a reload, as SIGHUP does."""
        self._asked.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._asked.wait()
            except TimeoutError:
                pass
            asked = self._asked.is_set()
            self._asked.clear()
            try:
                await self.refresh(asked=asked)
            except Exception:
                log.exception("configuration_not_reloaded")

    async def refresh(self, *, asked: bool = False) -> None:
        """Reads the file if it has changed since the last check and rests, or if `asked`. One that is still being
        written is left to the next check: groups that it does not have yet would count as removed."""
        stamp = await asyncio.to_thread(self._stamp, self._file.path)  # its file system may hang
        if stamp == self._seen and not asked:
            return
        if not asked:
            await asyncio.sleep(self._rest_s)
            if await asyncio.to_thread(self._stamp, self._file.path) != stamp:
                return
        self._seen = stamp
        try:
            changes = change(self.settings, await asyncio.to_thread(self._file.read))
            if changes.groups_differ:
                self._apply(changes.settings)
        except (SettingsError, ApplicationError, UnknownNameError) as error:
            _log_refused(error, self._file.path)
            return
        self.settings = changes.settings
        _log_change(changes, self._file.path)


def _log_change(changes: SettingsChange, path: Path) -> None:
    lists = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
    log.info(
        "configuration_read", file=str(path), **{name: list(entries) for name, entries in lists.items() if entries}
    )
    for sentence in changes.restart:
        log.warning("restart_needed", reason=sentence)


def _log_refused(error: Exception, path: Path) -> None:
    log.error("configuration_refused", file=str(path), reason=f"{error} What was in force before stays in force.")
