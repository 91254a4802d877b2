"""Operators' placement rules, as they are written in orders."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One pin or ban. `where` is "rack:NAME" or "member:ID". `item` is a partition, a topic, a task, a subtopology or
    "*". `order` states who ordered it and why; it is ignored when rules are compared."""

    kind: Literal["pin", "ban"]
    item: str
    where: str
    order: str = field(default="", compare=False)

    @property
    def empties(self) -> bool:
        """Whether the rule evacuates its place."""
        return self.kind == "ban" and self.item == EVERYTHING


def ordered(rules: Sequence[Rule]) -> str:
    """Returns the orders behind these rules, "" if none is known."""
    return "; ".join(dict.fromkeys(rule.order for rule in rules if rule.order))


def behind(orders: str) -> str:
    """Returns the orders in parentheses, for the end of a sentence."""
    return f" ({orders})" if orders else ""


def known_racks(racks: Sequence[str]) -> str:
    """Returns a sentence part that lists the known racks."""
    return f"racks are {', '.join(racks)}" if racks else "no member names a rack"
