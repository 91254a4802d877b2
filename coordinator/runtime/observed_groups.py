"""The groups that a process only observes. Finds them by their patterns, drops them when they are gone, and spreads
refreshes over the interval so that they can share requests."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import ListedGroup, TransportError
from bellwether_kafka.coordinator.membership import Node, name_of
from bellwether_kafka.coordinator.observation import GroupObserver, notify
from bellwether_kafka.coordinator.runtime.selection import Selected, Selection
from bellwether_kafka.coordinator.settings import SettingsError
from bellwether_kafka.coordinator.watching import Troubles

INTERVAL_S = 10.0
INTERVAL_S_MAX = 120.0
TOGETHER_MIN = 25  # fewer groups are refreshed together
SLICES_MAX = 20
CPU_SHARE_MAX = 0.2
MISSED_MAX = 2  # a new coordinator node may not list the group yet
TIMEOUT_MS = 5_000

log = structlog.get_logger(__name__)

OnGone = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """The groups of all nodes, each with its coordinator node. `missing`: why there may be more, "" if there are
    not."""

    groups: Mapping[str, tuple[ListedGroup, Node]]
    missing: str = ""


class Lister(Protocol):
    """Lists all groups."""

    async def __call__(self) -> FoundGroups: ...


def lister(transport: wire.Transport, reader: Callable[[], client.ClusterReader]) -> Lister:
    """Returns a function that sends ListGroups to every node. `reader` provides the nodes and is opened only for
    that."""

    async def list_all() -> FoundGroups:
        try:
            nodes = await reader().nodes()
        except ClusterUnreachableError as error:
            return FoundGroups({}, str(error))
        asked = (transport.ask(wire.ListAllGroups(node, TIMEOUT_MS)) for node in nodes)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        groups: dict[str, tuple[ListedGroup, Node]] = {}
        missing = "" if nodes else "the cluster names no broker"
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, TransportError):
                missing = f"broker {node.node_id} does not list its groups ({answer})"
            elif isinstance(answer, BaseException):
                raise answer
            else:
                groups.update({group.group_id: (group, node) for group in answer.groups})
                if answer.error:
                    missing = f"broker {node.node_id} does not list all of its groups ({name_of(answer.error)})"
        return FoundGroups(groups, missing)

    return list_all


class ObservedGroups:
    """Refreshes observed groups until `stop`. `make` creates the observer of a group. `on_gone` receives groups that
    are no longer observed. Groups that are not `due` are not refreshed, because their state is known from elsewhere.

    All methods belong to the event loop. `clock` is in seconds, monotonic; `cpu` is the CPU time of the process in
    seconds.
    """

    def __init__(
        self,
        selection: Selection,
        make: Callable[[Selected], GroupObserver],
        listed: Lister,
        shared: Describer,
        on_gone: Sequence[OnGone] = (),
        *,
        due: Callable[[str], bool] = lambda _: True,
        clock: Callable[[], float] = clocks.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.observers: dict[str, GroupObserver] = {}
        self.interval_s = INTERVAL_S
        self._selection = selection
        self._make = make
        self._listed = listed
        self._shared = shared
        self._on_gone = on_gone
        self._due = due
        self._clock = clock
        self._cpu = cpu
        self._selected: dict[str, Selected] = {}
        self._missed: dict[str, int] = {}
        self._troubles = Troubles()
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._take_named()

    def follow(self, selection: Selection) -> None:
        """Applies other settings. Groups whose settings have changed get new observers and are refreshed at once."""
        self._selection = selection
        for group_id, before in list(self._selected.items()):
            if group_id in selection.named:
                continue
            after = self._select(ListedGroup(group_id, ""))
            if after is None or after.settings != before.settings:
                self._drop(group_id)
        self._take_named()
        self._changed.set()

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        for task in self._refreshing.values():
            task.cancel()

    async def run(self) -> int:
        """Runs until `stop`; returns 0. Silent brokers and errors of its own are logged and do not end it."""
        while not self._stopping.is_set():
            self._changed.clear()
            began, computed, observed = self._clock(), self._cpu(), len(self.observers)
            try:
                if self._selection.patterns:
                    await self.discover()
            except Exception:
                log.exception("groups_not_listed")
            await self._refresh_all(began)
            if 2 * observed >= len(self.observers):  # the first refresh of a group plans it, later ones need not
                self._pace(self._cpu() - computed)
        return 0

    async def discover(self) -> None:
        """Adds groups that patterns select. Drops those that are missing from two complete lists in a row."""
        listing = await self._listed()
        self._log_change("", "groups_not_listed", listing.missing)
        matched: set[str] = set()
        for group, node in listing.groups.values():
            selected = self._select(group)
            if selected is None:
                continue
            matched.add(selected.by)
            self._missed.pop(group.group_id, None)
            self._shared.learn(node, [group.group_id])
            if group.group_id not in self._selected:
                self._take(group.group_id, selected)
        if listing.missing:
            return
        for group_id in [g for g, selected in self._selected.items() if selected.by and g not in listing.groups]:
            self._missed[group_id] = self._missed.get(group_id, 0) + 1
            if self._missed[group_id] >= MISSED_MAX:
                self._drop(group_id)
        for pattern in self._selection.patterns:
            self._log_change(pattern, "pattern_matches_nothing", "" if pattern in matched else _nothing(pattern))

    def _select(self, group: ListedGroup) -> Selected | None:
        try:
            return self._selection.select(group)
        except SettingsError as error:
            self._log_change(group.group_id, "group_not_selected", str(error), error=True)
            return None

    def _take_named(self) -> None:
        for group_id, selected in self._selection.named.items():
            before = self._selected.get(group_id)
            if before is not None and before.settings == selected.settings and not before.by:
                continue
            if before is not None:
                self._drop(group_id)
            self._take(group_id, selected)

    def _take(self, group_id: str, selected: Selected) -> None:
        self._selected[group_id] = selected
        self.observers[group_id] = self._make(selected)
        if selected.by:
            log.info("group_found", group=group_id, pattern=selected.by)

    def _drop(self, group_id: str) -> None:
        log.info("group_dropped", group=group_id)
        for by_group in (self._selected, self.observers, self._missed):
            by_group.pop(group_id, None)
        self._troubles.over(group_id)
        refreshing = self._refreshing.pop(group_id, None)
        if refreshing is not None:
            refreshing.cancel()
        self._shared.forget(group_id)
        for observer in self._on_gone:
            notify(observer, group_id)

    def _log_change(self, subject: str, event: str, reason: str, *, error: bool = False) -> None:
        self._troubles.report(log.error if error else log.warning, event, reason, of=subject)

    # ---- refreshes -----------------------------------------------------------------------------------------------

    async def _refresh_all(self, began: float) -> None:
        """Refreshes slice by slice, so that requests are spread evenly and each serves many groups."""
        slices = _slices(list(self.observers))
        for number, slice_ in enumerate(slices, 1):
            for group_id in slice_:
                self._refresh(group_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, began + self.interval_s * number / len(slices) - self._clock())):
                    await self._changed.wait()
            if self._changed.is_set():
                return

    def _refresh(self, group_id: str) -> None:
        observer = self.observers.get(group_id)
        if observer is None or group_id in self._refreshing:
            return  # the previous refresh still waits for brokers
        if not self._due(group_id):
            observer.rest()
            return
        task = asyncio.create_task(observer.refresh())
        self._refreshing[group_id] = task

        def ended(_: object) -> None:
            if self._refreshing.get(group_id) is task:
                del self._refreshing[group_id]

        task.add_done_callback(ended)

    def _pace(self, computed_s: float) -> None:
        """Sets the interval: longer if many groups would take too much CPU time."""
        wanted_s = INTERVAL_S
        if len(self.observers) >= TOGETHER_MIN:
            wanted_s = min(INTERVAL_S_MAX, max(INTERVAL_S, math.ceil(computed_s / CPU_SHARE_MAX)))
        if (wanted_s > INTERVAL_S) != (self.interval_s > INTERVAL_S):
            log.info(
                "refreshes_paced", interval_s=wanted_s, groups=len(self.observers), computed_s=round(computed_s, 1)
            )
        self.interval_s = wanted_s


def _slices(group_ids: list[str]) -> list[list[str]]:
    """Divides the groups into slices of neighbours by name: consumers of the same topics then share requests."""
    count = min(SLICES_MAX, max(1, math.ceil(len(group_ids) / TOGETHER_MIN)))
    ordered = sorted(group_ids)
    size = max(1, math.ceil(len(ordered) / count))
    return [ordered[begin : begin + size] for begin in range(0, len(ordered), size)] or [[]]


def _nothing(pattern: str) -> str:
    return (
        f"No group fits the pattern {pattern} yet; groups are looked for every {INTERVAL_S:.0f} s, and brokers list"
        " only those that Bellwether may DESCRIBE."
    )
