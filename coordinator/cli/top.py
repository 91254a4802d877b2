"""The command `bellwether top`: all groups in one table that is refreshed. It joins no group.

Brokers do not report the leader and the generation of a classic group; a Bellwether instance that leads it shows them
on its page.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group as Renderables
from rich.live import Live
from rich.style import Style
from rich.text import Text

from bellwether_kafka.bounded import fetched, json_of
from bellwether_kafka.coordinator.cli.options import ANY_GROUP, WAIT_S_MAX, Bootstrap, Config, settings_for
from bellwether_kafka.coordinator.cli.output import As, Console, Output, Table, counted, echo, fail, print_document
from bellwether_kafka.coordinator.cli.read_groups import (
    LISTED_TYPES,
    REFRESHES_AT_ONCE,
    all_groups,
    connected,
    observer_for,
    run_to_end,
)
from bellwether_kafka.coordinator.membership import NotLeading
from bellwether_kafka.coordinator.names import for_sentence
from bellwether_kafka.coordinator.observation import (
    BELLWETHER,
    BROKER,
    NOBODY,
    Group,
    GroupObserver,
    Level,
    Observation,
    RoleStatus,
    Sources,
    group_of,
    values_of_group,
    who_assigns,
    worst_first,
)

if sys.platform != "win32":
    import termios
    import tty

ENTER, ESCAPE, BACKSPACE = ("\r", "\n"), "\x1b", ("\x7f", "\b")
QUIT = "q"
HELP = "w worst, n name, l lag, m members, x cross rack, r reverse, / filter, q quit"
PAGE_TIMEOUT_S = 2.0
PAGE_BYTES_MAX = 10_000_000
COLUMNS = (
    "group",
    "assigned by",
    "state",
    "wrong",
    "generation",
    "members",
    "lag",
    "cross rack",
    "planned",
    "last cause",
    "ago",
)
WIDE_COLUMNS = ("type", "unowned", "remedy")
MARKED = Style(bold=True, color="yellow")
WITHOUT_OTHERS = (NotLeading.EMPTY, NotLeading.UNKNOWN_GROUP)


@dataclass(frozen=True, slots=True)
class InstanceReports:
    """What instances report, by group. `leads`: generations of groups that an instance leads. `roles`: roles of the
    other groups. `rebalances`: the newest rebalance."""

    leads: Mapping[str, int] = field(default_factory=dict)
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rebalances: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[Mapping[str, Any]], lines: Iterable[Mapping[str, Any]]) -> "InstanceReports":
        """Combines the answers of /api/groups and /decisions of all instances."""
        groups = list(groups)
        leads = {str(row["group"]): int(row["generation"]) for row in groups if row["leading"]}
        rebalances: dict[str, Mapping[str, Any]] = {}
        for line in lines:
            newest = rebalances.get(line["group"])
            if newest is None or line["decided_at_ms"] > newest["decided_at_ms"]:
                rebalances[line["group"]] = line
        roles = {str(row["group"]): row["role"] for row in groups if row["role"] is not None}
        return cls(leads, {group: roles[group] for group in roles.keys() - leads.keys()}, rebalances)


class SortOrder(StrEnum):
    """The orders of rows. All but the name show the worst or the largest first."""

    WORST = "worst"
    NAME = "name"
    LAG = "lag"
    MEMBERS = "members"
    CROSS_RACK = "cross-rack"


KEYS = {
    "w": SortOrder.WORST,
    "n": SortOrder.NAME,
    "l": SortOrder.LAG,
    "m": SortOrder.MEMBERS,
    "x": SortOrder.CROSS_RACK,
}


@dataclass(frozen=True, slots=True)
class View:
    """What is shown. `wanted`: a part of group names, "" for all. While it is `typed`, keys are its letters."""

    order: SortOrder = SortOrder.WORST
    reverse: bool = False
    wanted: str = ""
    typed: bool = False

    @property
    def caption(self) -> str:
        """The order and the filter, if they differ from the defaults."""
        parts = [f"by {self.order.value}{', reversed' * self.reverse}"] * (
            self.order is not SortOrder.WORST or self.reverse
        )
        parts += [f"filter: {self.wanted}{'_' * self.typed}"] * (self.typed or bool(self.wanted))
        return "; ".join(parts)

    def rows(self, rows: Iterable[Group]) -> list[Group]:
        """Returns the rows that fit the filter, in order. Equal rows are ordered by name, so that they keep their
        places between refreshes, and unknown values come last."""
        ordered = sorted((row for row in rows if self.wanted in row.group), key=lambda row: row.group)
        if self.order in (SortOrder.WORST, SortOrder.NAME):
            ordered = worst_first(ordered) if self.order is SortOrder.WORST else ordered
            return ordered[::-1] if self.reverse else ordered
        return sorted(ordered, key=self._rank)

    def _rank(self, row: Group) -> tuple[bool, int]:
        lag = row.lag.lag if row.lag is not None else None
        value = {SortOrder.LAG: lag, SortOrder.MEMBERS: row.members}.get(self.order, row.cross_rack)
        return value is None, (value or 0) * (1 if self.reverse else -1)

    def pressed(self, key: str) -> "View":
        """Returns the view after this key; unchanged if the key has no meaning."""
        if self.typed:
            return self._after_letter(key)
        if key in KEYS:
            return replace(self, order=KEYS[key], reverse=False)
        if key == "r":
            return replace(self, reverse=not self.reverse)
        return replace(self, typed=True, wanted="") if key == "/" else self

    def _after_letter(self, key: str) -> "View":
        if key in ENTER:
            return replace(self, typed=False)
        if key == ESCAPE:
            return replace(self, typed=False, wanted="")
        if key in BACKSPACE:
            return replace(self, wanted=self.wanted[:-1])
        return replace(self, wanted=self.wanted + key) if key.isprintable() else self


def top(
    group: Annotated[list[str] | None, typer.Argument(help="Groups; all that are there unless some are named.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            help="The page of an instance of Bellwether, such as http://127.0.0.1:9790: adds generation and last cause."
        ),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between refreshes.", min=0.5, max=WAIT_S_MAX)] = 3.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    sort: Annotated[
        SortOrder, typer.Option(help="What comes first: the worst, the name, or the largest.")
    ] = SortOrder.WORST,
    filter_: Annotated[str, typer.Option("--filter", help="Only groups with this in their names.")] = "",
    output: As = Output.TABLE,
) -> None:
    for address in url or []:
        if not address.startswith(("http://", "https://")):
            fail(f"--url {address} cannot be used; write http://host:port.")
    with suppress(KeyboardInterrupt):
        view = View(sort, wanted=filter_)
        run_to_end(_top(group or [], bootstrap, config, url or [], None if once else interval, output, view))


async def _top(
    names: Sequence[str],
    bootstrap: str | None,
    config: Path | None,
    urls: Sequence[str],
    interval_s: float | None,
    output: Output,
    view: View,
) -> None:
    settings, _ = settings_for(bootstrap, config, names[0] if names else ANY_GROUP)
    async with connected(settings, many=True) as sources:
        observers: dict[str, GroupObserver] = {}
        silent: dict[str, str] = {}

        async def refresh(wanted: str) -> list[Group]:
            for name in names or await _listed(sources):
                if name not in observers and wanted in name:
                    group_config, _ = settings_for(bootstrap, config, name)
                    observers[name] = observer_for(group_config, name, sources)
            rows = await _refresh([observer for name, observer in observers.items() if wanted in name], urls, silent)
            if names and rows and all(row.type in ("missing", "unknown") for row in rows):
                shown = ", ".join(map(for_sentence, names))
                fail(f"None of these groups can be described: {shown}. See 'bellwether groups'.")
            return rows

        if interval_s is None:
            _print(view.rows(await refresh(view.wanted)), view, output)
            for sentence in unanswered(silent):
                echo(sentence, err=True)
        elif output.is_document or not sys.stdout.isatty():
            while True:
                _print(view.rows(await refresh(view.wanted)), view, output, one_of_many=True)
                await asyncio.sleep(interval_s)
        else:
            await Screen(view, wide=output is Output.WIDE, silent=silent).run(refresh, interval_s)


def unanswered(silent: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each page that did not answer, with the reason."""
    sentences = "so what it leads is not shown; check --url."
    return [f"{url} does not answer ({why}), {sentences}" for url, why in silent.items()]


def _print(rows: Sequence[Group], view: View, output: Output, *, one_of_many: bool = False) -> None:
    if output.is_document:
        print_document([values_of_group(row) for row in rows], one_of_many=one_of_many)
    else:
        Console().print(_table(rows, view, wide=output is Output.WIDE))


@contextmanager
def keys_of(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Passes each key to `on_key` as it is pressed, if standard input is a terminal; yields whether it is. Restores the
    terminal afterwards. Needs a running event loop."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield False
        return
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)

    def read() -> None:
        for key in os.read(number, 64).decode(errors="ignore"):
            on_key(key)

    try:
        tty.setcbreak(number)  # Ctrl-C is still a signal
        loop.add_reader(number, read)
        yield True
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class Screen:
    """The live table. A key press redraws it at once from the last refresh."""

    def __init__(self, view: View, *, wide: bool, silent: Mapping[str, str] | None = None) -> None:
        self._view, self._wide = view, wide
        self._silent: Mapping[str, str] = {} if silent is None else silent
        self._rows: list[Group] = []
        self._ended = asyncio.Event()
        self._live = Live(console=Console(), screen=True, auto_refresh=False)

    async def run(self, refresh: Callable[[str], Awaitable[list[Group]]], interval_s: float) -> None:
        """Returns after `q` or Ctrl-C."""
        with self._live, keys_of(self.press) as has_keys:
            while not self._ended.is_set():
                self._rows = await refresh("" if self._view.typed else self._view.wanted)
                self._draw(HELP if has_keys else "")
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_s):
                        await self._ended.wait()

    def press(self, key: str) -> None:
        if key == QUIT and not self._view.typed:
            self._ended.set()
        self._view = self._view.pressed(key)
        self._draw(HELP)

    def _draw(self, below: str) -> None:
        rows = self._view.rows(self._rows)
        sentences = [Text(sentence, "yellow") for sentence in unanswered(self._silent)]
        self._live.update(
            Renderables(_table(rows, self._view, wide=self._wide), *sentences, Text(below, "dim")), refresh=True
        )


async def _listed(sources: Sources) -> list[str]:
    groups = await all_groups(sources.transport, sources.reader)
    return sorted(g.group_id for g in groups if g.protocol_type in LISTED_TYPES or g.type in ("consumer", "streams"))


async def _refresh(
    observers: Sequence[GroupObserver], urls: Sequence[str], silent: dict[str, str] | None = None
) -> list[Group]:
    """Returns the rows. Fills `silent` with the pages that did not answer, and why."""
    reports = await asyncio.to_thread(_reports, urls, {} if silent is None else silent)
    turns = asyncio.Semaphore(REFRESHES_AT_ONCE)

    async def refresh(observer: GroupObserver) -> Observation:
        async with turns:
            return await observer.observe()

    return [row_of(seen, reports) for seen in await asyncio.gather(*map(refresh, observers))]


def _reports(urls: Sequence[str], silent: dict[str, str]) -> InstanceReports:
    """Returns the reports of the pages that answer. Fills `silent` with the others, and why."""
    silent.clear()
    groups: list[Any] = []
    lines: list[Any] = []
    for url in urls:
        try:
            groups += _fetched(f"{url.rstrip('/')}/api/groups")
            lines += _fetched(f"{url.rstrip('/')}/decisions")
        except (OSError, HTTPException, ValueError) as error:
            silent[url] = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
    return InstanceReports.of(groups, lines)


def _fetched(url: str) -> Any:
    return json_of(fetched(url, PAGE_BYTES_MAX, PAGE_TIMEOUT_S))


def _table(rows: Sequence[Group], view: View, *, wide: bool) -> Table:
    title = ", ".join(filter(None, (counted(len(rows), "group"), view.caption)))
    table = Table(*COLUMNS, *WIDE_COLUMNS * wide, title=title)
    now_ms = time.time() * 1000
    for row in rows:
        ago = "-" if row.cause_at_ms is None else f"{max(0.0, now_ms - row.cause_at_ms) / 1000:.0f} s"
        lag = row.lag.lag if row.lag is not None else None
        numbers = [row.generation, row.members, lag, row.cross_rack, row.cross_rack_planned]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        why = f": {row.role.reason.replace('_', ' ')}" if row.role is not None and row.role.reason else ""
        findings = row.findings
        wrong = ", ".join(finding.words for finding in findings) or "-"
        cells = [
            for_sentence(row.group),
            f"{row.assigned_by}{why}",
            row.state or "-",
            wrong,
            *shown,
            row.cause or "-",
            ago,
        ]
        remedy = row.role.remedy if row.role is not None else ""
        more = (row.type, "-" if row.unowned is None else f"{row.unowned:,}", remedy or "-")
        marked = any(finding.level.rank >= Level.WARN.rank for finding in findings)
        table.add_row(*cells, *more * wide, style=MARKED if marked else None)
    return table


def row_of(seen: Observation, reports: InstanceReports) -> Group:
    last, role = reports.rebalances.get(seen.group_id), reports.roles.get(seen.group_id)
    return group_of(
        seen,
        assigned_by=_assigned_by(seen, reports),
        leading=seen.group_id in reports.leads,
        role=RoleStatus(**role) if role is not None else None,
        generation=reports.leads.get(seen.group_id),
        cause=str(last["cause"]) if last is not None else seen.trouble,
        moved=int(last["moved"]) if last is not None else None,
        cause_at_ms=int(last["decided_at_ms"]) if last is not None else None,
    )


def _assigned_by(seen: Observation, reports: InstanceReports) -> str:
    by = who_assigns(seen)
    if seen.group_id in reports.leads and by != BROKER:
        return BELLWETHER
    role = reports.roles.get(seen.group_id, {})
    return NOBODY if role.get("reason") in WITHOUT_OTHERS and by == BELLWETHER and not seen.members else by
