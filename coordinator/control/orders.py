"""The orders in force: the control topic, folded. `Orders.of` has those of a group as one value, which is all that
others take of them. Pure: `now_ms` is an argument."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.handed_back import HandedBack, handed_back_key
from bellwether_kafka.coordinator.control.order_kinds import ORDERS, OrderKind, Takes, order_key
from bellwether_kafka.coordinator.control.records import (
    Absence,
    OnPlaces,
    Order,
    PlacementOrder,
    Record,
    absence_key,
)

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrders:
    """The orders in force for one group. `given` are those on the group as a whole, by kind; `plan` is applied to it;
    `placements` are its pins, bans and evacuations, sorted by key."""

    given: Mapping[OrderKind, Order] = field(default_factory=dict)
    plan: AppliedPlan | None = None
    placements: tuple[PlacementOrder, ...] = ()

    @property
    def on_places(self) -> tuple[OnPlaces, ...]:
        """All orders on the places of the group's items, in the order in which plans follow them."""
        return (*([self.plan] if self.plan is not None else []), *self.placements)

    @property
    def rules(self) -> "tuple[Rule, ...]":
        """What plans follow."""
        return tuple(rule for order in self.on_places for rule in order.rules)

    @property
    def on_membership(self) -> Mapping[str, str]:
        """The sentences of the orders on whether Bellwether is in the group and begins rebalances, "" for none."""
        return {kind.value: self.given[kind].sentence if kind in self.given else "" for kind in ON_MEMBERSHIP}

    def places_as(self, other: "GroupOrders") -> bool:
        """Returns whether plans follow the same: an order that replaces one with an equal effect changes nothing."""
        return [order.effect for order in self.on_places] == [order.effect for order in other.on_places]


ON_GROUPS = tuple(kind for kind, traits in ORDERS.items() if traits.takes in (Takes.GROUP, Takes.GROUP_OR_ALL))
ON_MEMBERSHIP = (OrderKind.LEAVE, OrderKind.PAUSE, OrderKind.RELEASE)  # the fields of membership.OrdersInForce
NO_ORDERS = GroupOrders()


class Orders:
    """The last readable record of each key, except heartbeats, which `active_role` keeps."""

    def __init__(self, records: Mapping[str, Record] | None = None) -> None:
        self.records: dict[str, Record] = {}
        self._placements: dict[str, dict[str, PlacementOrder]] = {}  # of `records`, by target and key
        for key, record in (records or {}).items():
            self.apply(key, record)

    def apply(self, key: str, record: Record | None) -> frozenset[str]:
        """Takes one record, in the order of the topic. None withdraws the key. Returns the targets for which something
        may have changed: that of the record and of the one before."""
        before = self.records.get(key)
        if record is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record
        if isinstance(record, PlacementOrder):
            self._placements.setdefault(record.target, {})[key] = record
        if isinstance(before, PlacementOrder) and (record is None or record.target != before.target):
            placements = self._placements[before.target]
            del placements[key]
            if not placements:
                del self._placements[before.target]
        return frozenset(each.target for each in (before, record) if each is not None)

    def of(self, group: str, now_ms: int) -> GroupOrders:
        """Returns the orders of a group that have not expired."""
        plan = self.records.get(order_key(OrderKind.APPLY, group))
        return GroupOrders(
            given={kind: order for kind in ON_GROUPS if (order := self.in_force(kind, group, now_ms)) is not None},
            plan=plan if isinstance(plan, AppliedPlan) and now_ms < plan.expires_ms else None,
            placements=self._placements_of(group, now_ms),
        )

    def in_force(self, kind: OrderKind, target: str, now_ms: int) -> Order | None:
        """Returns the order if it was given and has not expired."""
        order = self.records.get(order_key(kind, target))
        return order if isinstance(order, Order) and now_ms < order.expires_ms else None

    def _placements_of(self, group: str, now_ms: int) -> tuple[PlacementOrder, ...]:
        given = self._placements.get(group)
        if given is None:
            return ()
        return tuple(order for _, order in sorted(given.items()) if now_ms < order.expires_ms)

    def all_placements(self, now_ms: int) -> tuple[PlacementOrder, ...]:
        """Returns the pins, bans and evacuations of all groups."""
        return tuple(order for group in list(self._placements) for order in self._placements_of(group, now_ms))

    def is_in_force(self, order: PlacementOrder, now_ms: int) -> bool:
        """Returns whether exactly this order is in force, rather than none or a later one."""
        return self.records.get(order.key) == order and now_ms < order.expires_ms

    def absence(self, order: PlacementOrder) -> Absence | None:
        """Returns the absence with which this order ends, None if no leader has reported it yet."""
        return absence_of(self.records, order)

    def handed_back(self, group: str, now_ms: int) -> HandedBack | None:
        """Returns the last hand-back of a group, while it limits the next one."""
        record = self.records.get(handed_back_key(group))
        return record if isinstance(record, HandedBack) and now_ms < record.expires_ms else None

    def left_over(self, now_ms: int) -> list[Absence]:
        """Returns the absences whose order has expired or was withdrawn."""
        absences = [record for record in self.records.values() if isinstance(record, Absence)]
        tied = {(order.target, order.where, order.at_ms) for order in self.all_placements(now_ms)}
        return [a for a in absences if (a.target, a.where, a.order_ms) not in tied]

    def all_in_force(self, now_ms: int) -> Iterator[Record]:
        return (record for _, record in sorted(self.records.items()) if now_ms < record.expires_ms)


def absence_of(records: Mapping[str, Record], order: PlacementOrder) -> Absence | None:
    """Returns the absence with which the order ends, None if no leader has reported it yet."""
    absence = records.get(absence_key(order.target, order.where))
    return absence if isinstance(absence, Absence) and absence.order_ms == order.at_ms else None


def order_news(
    before: Sequence[OnPlaces],
    in_force: Sequence[OnPlaces],
    now_ms: int,
    why: Mapping[str, str],
) -> str:
    """Returns what has changed, in sentences: new orders, and ended ones with the reason. `why` has the reasons, by
    sentence, of orders that this instance ended."""
    effects, kept = [order.effect for order in before], {order.key for order in in_force}
    message = [order.sentence for order in in_force if order.effect not in effects]
    ended = [order for order in before if order.key not in kept]
    how = ["expired" if order.expires_ms <= now_ms else why.get(order.sentence, "withdrawn") for order in ended]
    return "; ".join(message + [f"{order.sentence}: {end}" for order, end in zip(ended, how, strict=True)])
