"""The fold of the control topic into the orders in force. Pure: `now_ms` is an argument."""

from collections.abc import Iterator, Mapping

from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.handed_back import HandedBack, handed_back_key
from bellwether_kafka.coordinator.control.order_kinds import OrderKind, order_key
from bellwether_kafka.coordinator.control.records import (
    Absence,
    OnPlaces,
    Order,
    PlacementOrder,
    Record,
    absence_key,
)


def absence_of(records: Mapping[str, Record], order: PlacementOrder) -> Absence | None:
    """Returns the absence with which the order ends, None if no leader has reported it yet."""
    absence = records.get(absence_key(order.target, order.where))
    return absence if isinstance(absence, Absence) and absence.order_ms == order.at_ms else None


class OrderState:
    """The last readable record of each key, except heartbeats, which `active_role` keeps."""

    def __init__(self) -> None:
        self._orders: dict[str, Record] = {}
        self._placements: dict[str, dict[str, PlacementOrder]] = {}  # of `_orders`, by target and key

    def apply(self, key: str, record: Record | None) -> frozenset[str]:
        """Takes one record, in the order of the topic. None withdraws the key. Returns the targets for which something
        may have changed: that of the record and of the one before."""
        before = self._orders.get(key)
        if record is None:
            self._orders.pop(key, None)
        else:
            self._orders[key] = record
        if isinstance(record, PlacementOrder):
            self._placements.setdefault(record.target, {})[key] = record
        if isinstance(before, PlacementOrder) and (record is None or record.target != before.target):
            placements = self._placements[before.target]
            del placements[key]
            if not placements:
                del self._placements[before.target]
        return frozenset(each.target for each in (before, record) if each is not None)

    def in_force(self, kind: OrderKind, target: str, now_ms: int) -> Order | None:
        """Returns the order if it was given and has not expired."""
        order = self._orders.get(order_key(kind, target))
        return order if isinstance(order, Order) and now_ms < order.expires_ms else None

    def sentence(self, kind: OrderKind, target: str, now_ms: int) -> str:
        """Returns the sentence of the order, "" if none is in force."""
        order = self.in_force(kind, target, now_ms)
        return order.sentence if order is not None else ""

    def placements(self, group: str, now_ms: int) -> tuple[PlacementOrder, ...]:
        """Returns the pins, bans and evacuations of a group that have not expired, sorted by key."""
        given = self._placements.get(group, {})
        return tuple(order for _, order in sorted(given.items()) if now_ms < order.expires_ms)

    def all_placements(self, now_ms: int) -> tuple[PlacementOrder, ...]:
        """Returns those of all groups."""
        return tuple(order for group in list(self._placements) for order in self.placements(group, now_ms))

    def is_in_force(self, order: PlacementOrder, now_ms: int) -> bool:
        """Returns whether exactly this order is in force, rather than none or a later one."""
        return self._orders.get(order.key) == order and now_ms < order.expires_ms

    def applied_plan(self, group: str, now_ms: int) -> AppliedPlan | None:
        """Returns the plan that is applied to a group."""
        record = self._orders.get(order_key(OrderKind.APPLY, group))
        return record if isinstance(record, AppliedPlan) and now_ms < record.expires_ms else None

    def on_places(self, group: str, now_ms: int) -> tuple[OnPlaces, ...]:
        """Returns all orders on the places of a group's items: an applied plan and those of `placements`."""
        plan = self.applied_plan(group, now_ms)
        return (*([plan] if plan is not None else []), *self.placements(group, now_ms))

    def any_placements(self, now_ms: int) -> bool:
        """Returns whether any group has a pin, ban or evacuation that has not expired."""
        return bool(self.all_placements(now_ms))

    def absence(self, order: PlacementOrder) -> Absence | None:
        """Returns the absence with which this order ends, None if no leader has reported it yet."""
        return absence_of(self._orders, order)

    def handed_back(self, group: str, now_ms: int) -> HandedBack | None:
        """Returns the last hand-back of a group, while it limits the next one."""
        record = self._orders.get(handed_back_key(group))
        return record if isinstance(record, HandedBack) and now_ms < record.expires_ms else None

    def left_over(self, now_ms: int) -> list[Absence]:
        """Returns the absences whose order has expired or was withdrawn."""
        absences = [record for record in self._orders.values() if isinstance(record, Absence)]
        tied = {(order.target, order.where, order.at_ms) for order in self.all_placements(now_ms)}
        return [a for a in absences if (a.target, a.where, a.order_ms) not in tied]

    def all_in_force(self, now_ms: int) -> Iterator[Record]:
        return (record for _, record in sorted(self._orders.items()) if now_ms < record.expires_ms)
