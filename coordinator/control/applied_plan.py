"""The order that applies a written plan: it places the items of a group as the plan does, until the members change.
Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bellwether_kafka.coordinator.control.order_kinds import VERSION, OrderKind, order_key

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Identified, Rule

DIGEST_CHARS_SHOWN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan:
    """A plan for the group `target`, in force until its members are not those of the plan. `digest` identifies the
    state that the plan was made for. `members` are all members, by instance id or member id. `items` are the
    partitions of each member, or the tasks of each process; an item that it does not name is placed by the policy."""

    target: str
    digest: str
    members: tuple[str, ...]
    items: Mapping[str, tuple[str, ...]]
    owner: str
    at_ms: int
    expires_ms: int
    reason: str = ""
    kind: OrderKind = OrderKind.APPLY

    @property
    def key(self) -> str:
        return order_key(self.kind, self.target)

    @property
    def rules(self) -> "tuple[Rule, ...]":
        from bellwether_kafka.assignors.shared import Rule  # noqa: PLC0415 - numpy, which only planners need

        among, order = frozenset(self.members), self.sentence
        return tuple(
            Rule("plan", item, f"member:{name}", order, among) for name, items in self.items.items() for item in items
        )

    @property
    def effect(self) -> object:
        """What plans follow: an order that replaces one with an equal effect changes nothing."""
        return frozenset(self.members), dict(self.items)

    @property
    def sentence(self) -> str:
        """The owner, the order and the reason, for logs."""
        why = f" ({self.reason})" if self.reason else ""
        plan = self.digest[:DIGEST_CHARS_SHOWN]
        return f"{self.owner} has ordered apply of the plan {plan} to '{self.target}' until its members change{why}"

    def change(self, members: "Iterable[Identified]") -> str:
        """Returns how the members differ from those of the plan, as a part of a sentence; "" if they are the same."""
        from bellwether_kafka.assignors.shared import changed  # noqa: PLC0415 - numpy, which only planners need

        return changed(frozenset(self.members), members)

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, **asdict(self), "kind": self.kind.value}
