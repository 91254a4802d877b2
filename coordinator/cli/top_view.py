"""How `bellwether top` shows its rows: in which order, which of them, and the keys that change that. Pure but for
`keys_of`, which reads them.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

if sys.platform != "win32":
    import termios
    import tty

ENTER, ESCAPE, BACKSPACE = ("\r", "\n"), "\x1b", ("\x7f", "\b")
QUIT = "q"
HELP = "n name, l lag, m members, x cross rack, r reverse, / filter, q quit"


class Order(StrEnum):
    """What rows are ordered by. All but the name begin with the largest."""

    NAME = "name"
    LAG = "lag"
    MEMBERS = "members"
    CROSS_RACK = "cross-rack"


KEYS = {"n": Order.NAME, "l": Order.LAG, "m": Order.MEMBERS, "x": Order.CROSS_RACK}


class Ordered(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def members(self) -> int: ...
    @property
    def cross_rack(self) -> int | None: ...


R = TypeVar("R", bound=Ordered)


@dataclass(frozen=True, slots=True)
class View:
    """`wanted` is a part of the names of groups, "" for all. While it is being `typed` keys are letters of it."""

    order: Order = Order.NAME
    reverse: bool = False
    wanted: str = ""
    typed: bool = False

    @property
    def caption(self) -> str:
        """The order and the filter where they are not as at first."""
        parts = [f"by {self.order.value}{', reversed' * self.reverse}"] * (self.order is not Order.NAME or self.reverse)
        parts += [f"filter: {self.wanted}{'_' * self.typed}"] * (self.typed or bool(self.wanted))
        return "; ".join(parts)

    def rows(self, rows: Iterable[R]) -> list[R]:
        """Those that are wanted, in order. Equal ones are ordered by name, so that they keep their places from look to
        look, and what is not known comes last."""
        found = sorted((row for row in rows if self.wanted in row.group), key=lambda row: row.group)
        if self.order is Order.NAME:
            return found[::-1] if self.reverse else found
        return sorted(found, key=self._rank)

    def _rank(self, row: Ordered) -> tuple[bool, int]:
        value = {Order.LAG: row.lag, Order.MEMBERS: row.members}.get(self.order, row.cross_rack)
        return value is None, (value or 0) * (1 if self.reverse else -1)

    def pressed(self, key: str) -> "View":
        """The view after this key; the same where the key means nothing."""
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


@contextmanager
def keys_of(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Hands over each key as it is pressed, where standard input is a terminal; says whether it is. Afterwards the
    terminal is as it was. To be used where an event loop runs."""
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
