"""Remembers over a restart in which groups Bellwether was a member: such a group, if it is empty afterwards, is joined
without a look at its offsets first. The file is small, and its loss costs no more than that look."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import structlog

from bellwether_kafka.bounded import json_of, read_file
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.control import write_state

TICK_S = 1.0
WRITTEN_S = 60.0
KEPT_S = 3_600.0
BYTES_MAX = 1_000_000

log = structlog.get_logger(__name__)


class Member(Protocol):
    """The part of `GroupRunner` that this module uses."""

    def post(self, event: membership.Event) -> None: ...

    @property
    def membership(self) -> membership.MembershipView: ...


class LeadMemory:
    """Of all groups to lead of one process. `clock` is in epoch seconds. Without a `path` nothing is remembered."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = clocks.wall) -> None:
        self._path = path
        self._clock = clock
        self._at: dict[str, float] = self._read()
        self._written: frozenset[str] = frozenset()
        self._written_at = float("-inf")

    def remind(self, members: Mapping[str, Member]) -> None:
        """Posts to each group how long ago an earlier process was its member. Call it before the groups run. After a
        clock was set back that is not known."""
        now = self._clock()
        for group, member in members.items():
            if group in self._at and now >= self._at[group]:
                member.post(membership.LeadRemembered(now - self._at[group]))

    async def run(self, members: Mapping[str, Member]) -> None:
        """Runs until cancelled, and writes a last time then."""
        try:
            while True:
                await asyncio.sleep(TICK_S)
                if self.refresh(members):
                    await asyncio.to_thread(self.write)
        finally:
            self.write()

    def refresh(self, members: Mapping[str, Member]) -> bool:
        """Notes the present memberships. Returns whether to write them: if there are others, else once a minute."""
        now = self._clock()
        present = frozenset(group for group, member in members.items() if _is_in(member.membership))
        self._at |= dict.fromkeys(present, now)
        due = present != self._written or (bool(present) and now - self._written_at >= WRITTEN_S)
        if due:
            self._written, self._written_at = present, now
        return due

    def _read(self) -> dict[str, float]:
        try:
            kept = json_of(read_file(self._path, BYTES_MAX)) if self._path is not None else {}
        except (OSError, ValueError):
            return {}
        pairs = kept.items() if isinstance(kept, dict) else ()
        return {str(group): float(at) for group, at in pairs if isinstance(at, int | float)}

    def write(self) -> None:
        """Writes the file. A failure is logged."""
        if self._path is None:
            return
        try:
            now = self._clock()
            known = {**self._read(), **self._at}  # the file may have groups of other processes
            kept = {group: at for group, at in known.items() if now - KEPT_S <= at <= now}
            write_state(self._path, json.dumps(kept))
        except OSError as error:
            log.info("memberships_not_kept", reason=str(error))


def _is_in(member: membership.MembershipView) -> bool:
    return member.state in (membership.State.STABLE, membership.State.DECIDING, membership.State.SYNCING)
