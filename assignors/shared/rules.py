"""The operator's rules on placement, as they are written in an order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One pin or ban. `where` is "rack:NAME" or "member:ID", `item` a partition, a topic, a task, a subtopology or "*".
    `order` is the sentence on who has ordered it and why; two orders of the same thing are one rule."""

    kind: Literal["pin", "ban"]
    item: str
    where: str
    order: str = field(default="", compare=False)

    @property
    def empties(self) -> bool:
        """Whether its place is to have nothing."""
        return self.kind == "ban" and self.item == EVERYTHING


def ordered(rules: Sequence[Rule]) -> str:
    """The orders behind these rules, "" where none is known."""
    return "; ".join(dict.fromkeys(rule.order for rule in rules if rule.order))


def behind(orders: str) -> str:
    """The same for the end of a sentence."""
    return f" ({orders})" if orders else ""


def known_racks(racks: Sequence[str]) -> str:
    """The places that there are, for the end of a sentence."""
    return f"racks are {', '.join(racks)}" if racks else "no member names a rack"
