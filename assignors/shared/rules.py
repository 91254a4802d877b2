"""Operators' placement rules, as they are written in orders."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One pin or ban, or the place of one item in an applied plan. `where` is "rack:NAME" or "member:ID". `item` is a
    partition, a topic, a task, a subtopology or "*". `order` states who ordered it and why; it is ignored when rules
    are compared.

    A `plan` is a pin that yields to pins and bans. `among` are the members to which the rule is limited, by instance id
    or member id: with any other members it has no effect. Empty: it is not limited.
    """

    kind: Literal["pin", "ban", "plan"]
    item: str
    where: str
    order: str = field(default="", compare=False)
    among: frozenset[str] = frozenset()

    @property
    def empties(self) -> bool:
        """Whether the rule evacuates its place."""
        return self.kind == "ban" and self.item == EVERYTHING


class Identified(Protocol):
    """A member of a group. Members with an instance id are static: they keep it when they restart."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...


def applicable(rules: Sequence[Rule], members: Iterable[Identified]) -> tuple[Rule, ...]:
    """Returns the rules that have an effect in a group with these members."""
    limits = {rule.among for rule in rules if rule.among}
    if not limits:
        return tuple(rules)
    present = tuple(members)
    fitting = {limit for limit in limits if not changed(limit, present)}
    return tuple(rule for rule in rules if not rule.among or rule.among in fitting)


def changed(expected: frozenset[str], members: Iterable[Identified]) -> str:
    """Returns how the members differ from those expected, by instance id or member id, as a part of a sentence; "" if
    they are the same."""
    present = {
        member.member_id if member.member_id in expected or member.instance_id is None else member.instance_id
        for member in members
    }
    gone, new = sorted(expected - present), sorted(present - expected)
    return "; ".join([f"member {name} is gone" for name in gone] + [f"member {name} is new" for name in new])


def ordered(rules: Sequence[Rule]) -> str:
    """Returns the orders behind these rules, "" if none is known."""
    return "; ".join(dict.fromkeys(rule.order for rule in rules if rule.order))


def yielding_last(rules: Sequence[Rule]) -> list[Rule]:
    """Returns the pins and bans, followed by the places of an applied plan, which yield to them."""
    return sorted(rules, key=lambda rule: rule.kind == "plan")


def behind(orders: str) -> str:
    """Returns the orders in parentheses, for the end of a sentence."""
    return f" ({orders})" if orders else ""


def known_racks(racks: Sequence[str]) -> str:
    """Returns a sentence part that lists the known racks."""
    shown = [rack if rack == rack.strip() else f"'{rack}'" for rack in racks]  # a blank at an end would not be seen
    return f"racks are {', '.join(shown)}" if racks else "no member names a rack"
